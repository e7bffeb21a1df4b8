/*
 * The locks that the servers of a quorum know, as one list. Each is asked by a thread of its own,
 * as a single server is. A lock is held by the owner that a majority names, counting those that are
 * silent; if a server says otherwise, that is told as well.
 */
#include "redis/quorum/quorum.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/thread.h"
#include "lock/lock_list.h"

#define SHARE_MOST  (2 * NANOS_PER_SEC) /* for a server that is silent */
#define TEXT_SIZE   1024
#define SAYING_SIZE 512

/* One server, and what it told. */
struct witness {
	const struct listing *listing;
	struct server server; /* the one endpoint */
	char name[PLACE_TEXT];
	pthread_t thread;
	bool started, answered;
	struct failure failure;
	struct lock_list views; /* by name */
	size_t shown;
	const struct lock_view *view; /* of the lock in question; NULL: it knows of none */
};

struct listing {
	const struct lock_lister *lister; /* borrowed */
	size_t count, majority, silent;
	struct witness witnesses[QUORUM_MOST];
	size_t view_count;
	const struct lock_view *views[QUORUM_MOST]; /* of the lock in question */
};

static void *ask(void *argument)
{
	struct witness *witness = argument;
	struct lock_lister lister = {.server = &witness->server,
		.query = witness->listing->lister->query,
		.show = lock_list_take,
		.context = &witness->views,
		.span = number_least(witness->listing->lister->span, SHARE_MOST),
		.cancel_fd = witness->listing->lister->cancel_fd,
		.least = witness->listing->lister->least};

	witness->answered = single_list(&lister, &witness->failure) &&
			    lock_list_sort(&witness->views, &witness->failure);
	if (lister.state)
		lister.close(lister.state);
	return NULL;
}

/* Each look has connections of its own. */
static void ask_all(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++) {
		struct witness *witness = &listing->witnesses[i];

		*witness = (struct witness){.listing = listing, .failure.code = EXIT_UNREACHABLE};
		redis_one_of(listing->lister->server, i, &witness->server, witness->name);
		witness->started = thread_start(&witness->thread, NULL, ask, witness) == 0;
		if (!witness->started)
			failure_set(&witness->failure, EXIT_SYSTEM, "cannot start a thread");
	}
	listing->silent = 0;
	for (size_t i = 0; i < listing->count; i++) {
		if (listing->witnesses[i].started)
			pthread_join(listing->witnesses[i].thread, NULL);
		listing->silent += !listing->witnesses[i].answered;
	}
}

/* Too few have answered. */
static bool fail(const struct listing *listing, struct failure *failure)
{
	const char *why = "";

	for (size_t i = 0; i < listing->count; i++) {
		const struct witness *witness = &listing->witnesses[i];

		if (witness->answered)
			continue;
		why = witness->failure.text;
		if (listing->silent == listing->count &&
			witness->failure.code != EXIT_UNREACHABLE) {
			*failure = witness->failure;
			return false;
		}
	}
	return failure_set(failure, EXIT_UNREACHABLE,
		"only %zu of the quorum's %zu servers answer (%s)",
		listing->count - listing->silent, listing->count, why);
}

/* --- One lock, as several servers see it ----------------------------------------------------- */

/* By the process, of which start times and pids are seldom alike. */
static int compare_parties(const void *a, const void *b)
{
	const struct owner *one = &((const struct lock_view_owner *)a)->owner;
	const struct owner *other = &((const struct lock_view_owner *)b)->owner;
	int order = (one->pid > other->pid) - (one->pid < other->pid);

	if (order == 0)
		order = (one->start > other->start) - (one->start < other->start);
	return order != 0 ? order : strcmp(one->host, other->host);
}

/* The longest wait first. */
static int compare_waits(const void *a, const void *b)
{
	int64_t one = ((const struct lock_view_owner *)a)->ms;
	int64_t other = ((const struct lock_view_owner *)b)->ms;

	return (one < other) - (one > other);
}

static bool is_held(const struct lock_view *view)
{
	return view->foreign || view->holder_count > 0;
}

static bool is_same_holder(const struct lock_view *one, const struct lock_view *other)
{
	if (is_held(one) != is_held(other) || one->foreign != other->foreign)
		return false;
	return !is_held(one) || one->foreign ||
	       compare_parties(&one->holders[0], &other->holders[0]) == 0;
}

/* As the most of them have it, and of several the one with the last fence; NULL: none has a holder.
 */
static const struct lock_view *find_holder(const struct listing *listing, size_t *times)
{
	const struct lock_view *best = NULL;

	*times = 0;
	for (size_t i = 0; i < listing->view_count; i++) {
		const struct lock_view *view = listing->views[i];
		size_t same = 0;

		for (size_t j = 0; j < listing->view_count; j++)
			same += is_same_holder(view, listing->views[j]);
		if (!is_held(view) || same < *times ||
			(best && same == *times && best->fence >= view->fence))
			continue;
		best = view;
		*times = same;
	}
	return best;
}

/* Until the majority is gone, by what those that answer say. */
static int64_t find_ttl(const struct listing *listing, const struct lock_view *holder)
{
	int64_t moments[QUORUM_MOST] = {0};
	size_t found = 0;
	size_t needed =
		listing->majority > listing->silent ? listing->majority - listing->silent : 1;

	for (size_t i = 0; i < listing->view_count; i++)
		if (is_same_holder(listing->views[i], holder))
			moments[found++] = listing->views[i]->ttl_ms;
	qsort(moments, found, sizeof(moments[0]), number_compare);
	return moments[needed < found ? found - needed : 0];
}

/* The waiters on any of the servers, each once. There may be many: a server may tell anything.
 * False: no memory. */
static bool gather_waiters(
	const struct listing *listing, struct lock_view_owner **list, size_t *count)
{
	size_t most = 0;

	*count = 0;
	for (size_t i = 0; i < listing->view_count; i++)
		most += listing->views[i]->waiter_count;
	*list = calloc(most + 1, sizeof(**list));
	if (!*list)
		return false;
	for (size_t i = 0, at = 0; i < listing->view_count; i++) {
		size_t more = listing->views[i]->waiter_count;

		memcpy(*list + at, listing->views[i]->waiters, more * sizeof(**list));
		at += more;
	}
	qsort(*list, most, sizeof(**list), compare_parties);
	for (size_t i = 0; i < most; i++)
		if (*count == 0 || compare_parties(&(*list)[*count - 1], &(*list)[i]) != 0)
			(*list)[(*count)++] = (*list)[i];
	qsort(*list, *count, sizeof(**list), compare_waits);
	return true;
}

/* The word of a witness against what is agreed on. False: it says nothing else. */
static bool write_saying(const struct witness *witness, const struct lock_view *agreed,
	char text[static SAYING_SIZE])
{
	const struct lock_view *view = witness->view;
	const char *name = witness->name;

	if (!witness->answered && witness->failure.code != EXIT_UNREACHABLE)
		/* The failure names the server, and why it counts as one that is dead. */
		strlcpy(text, witness->failure.text, SAYING_SIZE);
	else if (!witness->answered)
		snprintf(text, SAYING_SIZE, "%s does not answer", name);
	else if (view ? is_same_holder(view, agreed) : !is_held(agreed))
		return false;
	else if (view && view->foreign)
		snprintf(text, SAYING_SIZE, "%s has it held by another Redis client", name);
	else if (view && view->holder_count > 0)
		snprintf(text, SAYING_SIZE, "%s has it held by %s:%d", name,
			view->holders[0].owner.host, (int)view->holders[0].owner.pid);
	else
		snprintf(text, SAYING_SIZE, "%s says that it is free", name);
	return true;
}

/* "h1:6379 says that it is free, h2:6379 does not answer"; empty: all are of one mind. */
static void write_dissent(
	const struct listing *listing, const struct lock_view *agreed, char text[static TEXT_SIZE])
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < listing->count && used < TEXT_SIZE; i++) {
		char saying[SAYING_SIZE];

		if (write_saying(&listing->witnesses[i], agreed, saying))
			used += (size_t)snprintf(
				text + used, TEXT_SIZE - used, "%s%s", used ? ", " : "", saying);
	}
}

/* A run that the majority of that time had may be known to few by now. */
static void later(struct lock_run *run, const struct lock_run *other)
{
	if (other->ended_us > run->ended_us)
		*run = *other;
}

/* The latest of all; and the hold-off that reaches furthest, if so many servers have one that the
 * others are no majority. */
static void collect(const struct listing *listing, struct lock_view *view)
{
	size_t off = listing->silent;

	view->hold_off = LOCK_HOLD_OFF_NONE;
	view->hold_off_ms = 0;
	for (size_t i = 0; i < listing->view_count; i++) {
		const struct lock_view *one = listing->views[i];

		if (one->fence > view->fence)
			view->fence = one->fence;
		if (one->counters.acquisitions > view->counters.acquisitions)
			view->counters = one->counters;
		later(&view->last_run, &one->last_run);
		later(&view->last_success, &one->last_success);
		off += one->hold_off != LOCK_HOLD_OFF_NONE;
		if (one->hold_off != LOCK_HOLD_OFF_NONE && one->hold_off_ms >= view->hold_off_ms) {
			view->hold_off = one->hold_off;
			view->hold_off_ms = one->hold_off_ms;
		}
	}
	if (off > listing->count - listing->majority)
		return;
	view->hold_off = LOCK_HOLD_OFF_NONE;
	view->hold_off_ms = 0;
}

/* False: no memory. */
static bool show_lock(const struct listing *listing)
{
	size_t times;
	const struct lock_view *holder = find_holder(listing, &times);
	struct lock_view view = *listing->views[0];
	struct lock_view_owner *waiters;
	char dissent[TEXT_SIZE];

	if (holder && times + listing->silent >= listing->majority) {
		view = *holder;
		view.ttl_ms = find_ttl(listing, holder);
	} else {
		view.foreign = false;
		view.holder_count = 0;
		view.ttl_ms = -1;
	}
	collect(listing, &view);
	if (!gather_waiters(listing, &waiters, &view.waiter_count))
		return false;
	view.waiters = waiters;
	write_dissent(listing, &view, dissent);
	view.dissent = dissent[0] != '\0' ? dissent : NULL;
	if (is_held(&view) || holder)
		listing->lister->show(&view, listing->lister->context);
	else
		lock_lister_show(listing->lister, &view, true);
	free(waiters);
	return true;
}

/* The first by name of those that were not shown yet. False: there is none. */
static bool find_next(struct listing *listing)
{
	const struct lock_view *first = NULL;

	listing->view_count = 0;
	for (size_t i = 0; i < listing->count; i++) {
		struct witness *witness = &listing->witnesses[i];

		witness->view = witness->answered && witness->shown < witness->views.count
					? &witness->views.list[witness->shown]
					: NULL;
		if (witness->view && (!first || strcmp(witness->view->name, first->name) < 0))
			first = witness->view;
	}
	for (size_t i = 0; first && i < listing->count; i++) {
		struct witness *witness = &listing->witnesses[i];

		if (witness->view && strcmp(witness->view->name, first->name) != 0)
			witness->view = NULL;
		witness->shown += witness->view != NULL;
		if (witness->view)
			listing->views[listing->view_count++] = witness->view;
	}
	return first != NULL;
}

bool quorum_list(struct lock_lister *lister, struct failure *failure)
{
	struct listing *listing = lock_lister_state(lister, sizeof(*listing), free, failure);
	bool good = true;

	if (!listing)
		return false;
	listing->lister = lister;
	listing->count = lister->server->endpoint_count;
	listing->majority = listing->count / 2 + 1;
	ask_all(listing);
	if (listing->count - listing->silent < listing->majority)
		good = fail(listing, failure);
	while (good && find_next(listing))
		good = show_lock(listing) || failure_set(failure, EXIT_SYSTEM, "out of memory");
	for (size_t i = 0; i < listing->count; i++)
		lock_list_free(&listing->witnesses[i].views);
	return good;
}
