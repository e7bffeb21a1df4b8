/*
 * What the servers of a quorum know of locks, as one. Each is asked by a thread of its own, as a
 * single server is. A lock is held by the owner that a majority names, counting those that are
 * silent; if a server says otherwise, that is told as well.
 */
#include "redis/quorum/quorum.h"

#include <bsd/string.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "lock/lock_list.h"
#include "redis/single/single.h"

#define SHARE_MOST  (2 * NANOS_PER_SEC) /* for a server that is silent */
#define TEXT_SIZE   1024
#define SAYING_SIZE 512

/* One server, and what it told. */
struct witness {
	struct peer peer;
	pthread_t thread;
	bool started, answered;
	const struct lock_query *query; /* borrowed */
	struct deadline deadline;
	struct failure failure;
	struct lock_list views;
};

struct entry {
	const struct lock_view *view;
	const struct witness *witness;
};

struct listing {
	const struct server *server;    /* borrowed */
	const struct lock_query *query; /* borrowed */
	struct witness *witnesses;      /* owned; count of them */
	size_t count, majority, silent;
	struct entry *entries; /* owned */
	size_t entry_count;
};

static void *ask(void *argument)
{
	struct witness *witness = argument;
	struct lock_lister lister = {.server = &witness->peer.server,
		.query = *witness->query,
		.show = lock_list_take,
		.context = &witness->views};

	witness->answered = single_list(&lister, witness->deadline, &witness->failure);
	if (lister.state)
		lister.close(lister.state);
	return NULL;
}

static void ask_all(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		listing->witnesses[i].started = pthread_create(&listing->witnesses[i].thread, NULL,
							ask, &listing->witnesses[i]) == 0;
	for (size_t i = 0; i < listing->count; i++) {
		if (listing->witnesses[i].started)
			pthread_join(listing->witnesses[i].thread, NULL);
		listing->silent += !listing->witnesses[i].answered;
	}
}

/* Too few have answered; or no memory is left. */
static bool fail(const struct listing *listing, struct failure *failure)
{
	const char *why = "";

	for (size_t i = 0; i < listing->count; i++) {
		const struct witness *witness = &listing->witnesses[i];

		if (witness->views.out_of_memory)
			return failure_set(failure, EXIT_SYSTEM, "out of memory");
		if (witness->answered || !witness->started)
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

static bool is_held(const struct lock_view *view)
{
	return view->foreign || view->holder_count > 0;
}

static bool is_same_party(const struct owner *one, const struct owner *other)
{
	return one->pid == other->pid && one->start == other->start &&
	       strcmp(one->host, other->host) == 0;
}

static bool is_same_holder(const struct lock_view *one, const struct lock_view *other)
{
	if (is_held(one) != is_held(other) || one->foreign != other->foreign)
		return false;
	return !is_held(one) || one->foreign ||
	       is_same_party(&one->holders[0].owner, &other->holders[0].owner);
}

/* The one that most of the entries name; NULL: none is named. */
static const struct lock_view *find_holder(const struct entry *entries, size_t count, size_t *times)
{
	const struct lock_view *best = NULL;

	*times = 0;
	for (size_t i = 0; i < count; i++) {
		size_t same = 0;

		for (size_t j = 0; j < count; j++)
			same += is_same_holder(entries[i].view, entries[j].view);
		if (!is_held(entries[i].view) || same < *times ||
			(best && same == *times && best->fence >= entries[i].view->fence))
			continue;
		best = entries[i].view;
		*times = same;
	}
	return best;
}

/* Until the majority is gone, by what those that answer say. */
static int64_t find_ttl(const struct listing *listing, const struct entry *entries, size_t count,
	const struct lock_view *holder)
{
	int64_t moments[QUORUM_MOST] = {0};
	size_t found = 0;
	size_t needed =
		listing->majority > listing->silent ? listing->majority - listing->silent : 1;

	for (size_t i = 0; i < count; i++)
		if (is_same_holder(entries[i].view, holder))
			moments[found++] = entries[i].view->ttl_ms;
	qsort(moments, found, sizeof(moments[0]), number_compare);
	return moments[needed < found ? found - needed : 0];
}

/* A waiter, and its place among all that the servers told of. */
struct waiter {
	const struct lock_view_owner *view;
	size_t place;
};

static int compare_places(const void *a, const void *b)
{
	size_t one = ((const struct waiter *)a)->place, other = ((const struct waiter *)b)->place;

	return (one > other) - (one < other);
}

/* The same ones side by side, in the order of their places. */
static int compare_waiters(const void *a, const void *b)
{
	const struct owner *one = &((const struct waiter *)a)->view->owner;
	const struct owner *other = &((const struct waiter *)b)->view->owner;
	int order = (one->pid > other->pid) - (one->pid < other->pid);

	if (order == 0)
		order = (one->start > other->start) - (one->start < other->start);
	if (order == 0)
		order = strcmp(one->host, other->host);
	return order != 0 ? order : compare_places(a, b);
}

/* Each once, in the order of their places; how many. There may be many: a server may tell anything.
 */
static size_t make_unique(struct waiter *waiters, size_t count)
{
	size_t kept = 0;

	qsort(waiters, count, sizeof(*waiters), compare_waiters);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 ||
			!is_same_party(&waiters[kept - 1].view->owner, &waiters[i].view->owner))
			waiters[kept++] = waiters[i];
	qsort(waiters, kept, sizeof(*waiters), compare_places);
	return kept;
}

/* The waiters on any of the servers. NULL: no memory. */
static struct lock_view_owner *gather_waiters(
	const struct entry *entries, size_t count, size_t *found)
{
	struct lock_view_owner *list;
	struct waiter *waiters;
	size_t most = 0;

	for (size_t i = 0; i < count; i++)
		most += entries[i].view->waiter_count;
	list = calloc(most + 1, sizeof(*list));
	waiters = calloc(most + 1, sizeof(*waiters));
	*found = 0;
	for (size_t i = 0, place = 0; waiters && i < count; i++)
		for (size_t j = 0; j < entries[i].view->waiter_count; j++, place++)
			waiters[place] = (struct waiter){&entries[i].view->waiters[j], place};
	if (list && waiters) {
		*found = make_unique(waiters, most);
		for (size_t i = 0; i < *found; i++)
			list[i] = *waiters[i].view;
	} else {
		free(list);
		list = NULL;
	}
	free(waiters);
	return list;
}

/* What one of them says against what is agreed on; view: of that lock, NULL: none. False: nothing.
 */
static bool write_saying(const struct witness *witness, const struct lock_view *view,
	const struct lock_view *agreed, char text[static SAYING_SIZE])
{
	const char *name = witness->peer.name;
	const struct owner *holder = view && is_held(view) ? &view->holders[0].owner : NULL;

	if (!witness->answered && witness->failure.code != EXIT_UNREACHABLE)
		/* It names the server, and why it counts as one that is dead. */
		strlcpy(text, witness->failure.text, SAYING_SIZE);
	else if (!witness->answered)
		snprintf(text, SAYING_SIZE, "%s does not answer", name);
	else if (view ? is_same_holder(view, agreed) : !is_held(agreed))
		return false;
	else if (view && view->foreign)
		snprintf(text, SAYING_SIZE, "%s has it held by another Redis client", name);
	else if (holder)
		snprintf(text, SAYING_SIZE, "%s has it held by %s:%d", name, holder->host,
			(int)holder->pid);
	else
		snprintf(text, SAYING_SIZE, "%s says that it is free", name);
	return true;
}

/* "h1:6379 says that it is free, h2:6379 does not answer"; empty: all are of one mind. */
static void write_dissent(const struct listing *listing, const struct entry *entries, size_t count,
	const struct lock_view *agreed, char text[static TEXT_SIZE])
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < listing->count && used < TEXT_SIZE; i++) {
		const struct witness *witness = &listing->witnesses[i];
		const struct lock_view *view = NULL;
		char saying[SAYING_SIZE];

		for (size_t j = 0; j < count; j++)
			if (entries[j].witness == witness)
				view = entries[j].view;
		if (write_saying(witness, view, agreed, saying))
			used += (size_t)snprintf(
				text + used, TEXT_SIZE - used, "%s%s", used ? ", " : "", saying);
	}
}

/* The hold-off that reaches furthest, if so many servers have one that the others are no majority.
 */
static void find_hold_off(const struct listing *listing, const struct entry *entries, size_t count,
	struct lock_view *view)
{
	size_t found = 0;

	view->hold_off = LOCK_HOLD_OFF_NONE;
	view->hold_off_ms = 0;
	for (size_t i = 0; i < count; i++)
		found += entries[i].view->hold_off != LOCK_HOLD_OFF_NONE;
	for (size_t i = 0;
		i < count && found + listing->silent > listing->count - listing->majority; i++) {
		const struct lock_view *one = entries[i].view;

		if (one->hold_off == LOCK_HOLD_OFF_NONE || one->hold_off_ms < view->hold_off_ms)
			continue;
		view->hold_off = one->hold_off;
		view->hold_off_ms = one->hold_off_ms;
	}
}

/* What the majority of that time had may be known to few by now. */
static void later(struct lock_run *run, const struct lock_run *other)
{
	if (other->ended_us > run->ended_us)
		*run = *other;
}

/* Entries of one name. False: no memory. */
static bool show_lock(const struct listing *listing, const struct entry *entries, size_t count,
	void (*show)(const struct lock_view *view, void *context), void *context)
{
	size_t times;
	const struct lock_view *holder = find_holder(entries, count, &times);
	struct lock_view view = *entries[0].view;
	struct lock_view_owner *waiters;
	char dissent[TEXT_SIZE];

	if (holder && times + listing->silent >= listing->majority) {
		view = *holder;
		view.ttl_ms = find_ttl(listing, entries, count, holder);
	} else {
		view.foreign = false;
		view.holder_count = 0;
		view.ttl_ms = -1;
	}
	for (size_t i = 0; i < count; i++) {
		if (entries[i].view->fence > view.fence)
			view.fence = entries[i].view->fence;
		if (entries[i].view->counters.acquisitions > view.counters.acquisitions)
			view.counters = entries[i].view->counters;
		later(&view.last_run, &entries[i].view->last_run);
		later(&view.last_success, &entries[i].view->last_success);
	}
	find_hold_off(listing, entries, count, &view);
	waiters = gather_waiters(entries, count, &view.waiter_count);
	if (!waiters)
		return false;
	view.waiters = waiters;
	write_dissent(listing, entries, count, &view, dissent);
	view.dissent = dissent[0] != '\0' ? dissent : NULL;
	if (is_held(&view) || view.waiter_count > 0 || holder ||
		lock_query_shows_idle(listing->query, view.name))
		show(&view, context);
	free(waiters);
	return true;
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->view->name, ((const struct entry *)b)->view->name);
}

static bool gather(struct listing *listing)
{
	size_t most = 1;

	for (size_t i = 0; i < listing->count; i++)
		most += listing->witnesses[i].views.count;
	listing->entries = calloc(most, sizeof(*listing->entries));
	if (!listing->entries)
		return false;
	for (size_t i = 0; i < listing->count; i++)
		for (size_t j = 0; j < listing->witnesses[i].views.count; j++)
			listing->entries[listing->entry_count++] = (struct entry){
				&listing->witnesses[i].views.list[j], &listing->witnesses[i]};
	qsort(listing->entries, listing->entry_count, sizeof(*listing->entries), compare_entries);
	return true;
}

static bool show_all(const struct listing *listing,
	void (*show)(const struct lock_view *view, void *context), void *context)
{
	const struct entry *entries = listing->entries;
	size_t next;

	for (size_t i = 0; i < listing->entry_count; i = next) {
		for (next = i; next < listing->entry_count; next++)
			if (strcmp(entries[next].view->name, entries[i].view->name) != 0)
				break;
		if (!show_lock(listing, entries + i, next - i, show, context))
			return false;
	}
	return true;
}

static void forget_views(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		lock_list_free(&listing->witnesses[i].views);
	free(listing->entries);
	listing->entries = NULL;
	listing->entry_count = 0;
	listing->silent = 0;
}

/* Each look has connections of its own. */
bool quorum_list(struct lock_lister *lister, struct deadline deadline, struct failure *failure)
{
	struct listing listing = {.server = lister->server,
		.query = &lister->query,
		.witnesses = calloc(lister->server->endpoint_count, sizeof(*listing.witnesses)),
		.count = lister->server->endpoint_count,
		.majority = lister->server->endpoint_count / 2 + 1};
	bool good;

	if (!listing.witnesses)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	for (size_t i = 0; i < listing.count; i++) {
		struct witness *witness = &listing.witnesses[i];

		*witness = (struct witness){
			.query = listing.query, .deadline = deadline_within(deadline, SHARE_MOST)};
		peer_open(&witness->peer, listing.server, i);
	}
	ask_all(&listing);
	good = listing.count - listing.silent >= listing.majority || fail(&listing, failure);
	for (size_t i = 0; good && i < listing.count; i++)
		good = !listing.witnesses[i].views.out_of_memory || fail(&listing, failure);
	if (good && !(gather(&listing) && show_all(&listing, lister->show, lister->context)))
		good = failure_set(failure, EXIT_SYSTEM, "out of memory");
	forget_views(&listing);
	free(listing.witnesses);
	return good;
}
