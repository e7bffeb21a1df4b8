#include "lock/contenders.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- The list -------------------------------------------------------------------------------- */

bool contenders_open(struct contenders *all, size_t size, size_t most)
{
	*all = (struct contenders){.list = calloc(most + 1, size), .size = size};
	return all->list != NULL;
}

void contenders_free(struct contenders *all)
{
	free(all->list);
	*all = (struct contenders){0};
}

struct contender *contenders_at(const struct contenders *all, size_t i)
{
	return (struct contender *)((char *)all->list + i * all->size);
}

static bool counts(const struct contender *c)
{
	return c->state != CONTENDER_RELEASED;
}

bool contender_may_hold(const struct contender *c)
{
	return c->state == CONTENDER_HOLDING || c->state == CONTENDER_OVER;
}

static int compare(const void *a, const void *b)
{
	const struct contender *one = a, *other = b;

	return (one->place > other->place) - (one->place < other->place);
}

void contenders_sort(struct contenders *all)
{
	int ahead = 0;
	bool open = true; /* all of those ahead hold it, in the mode of the first, with others */
	const struct contender *first = NULL;

	qsort(all->list, all->count, all->size, compare);
	for (size_t i = 0; i < all->count; i++) {
		struct contender *c = contenders_at(all, i);

		if (!counts(c))
			continue;
		first = first ? first : c;
		open = open && c->mode == first->mode && c->mode != LOCK_EXCLUSIVE;
		if (c->state == CONTENDER_BY_PLACE)
			c->state = c == first || (open && (c->mode == LOCK_SHARED ||
								  ahead < c->permits))
					   ? CONTENDER_HOLDING
					   : CONTENDER_WAITING;
		open = open && c->state != CONTENDER_WAITING;
		ahead++;
	}
}

struct contender *contenders_find(const struct contenders *all, const char *id)
{
	for (size_t i = 0; i < all->count; i++) {
		struct contender *c = contenders_at(all, i);

		if (strcmp(c->id, id) == 0)
			return c;
	}
	return NULL;
}

struct contender *contenders_holder(const struct contenders *all)
{
	for (size_t i = 0; i < all->count; i++)
		if (contender_may_hold(contenders_at(all, i)))
			return contenders_at(all, i);
	return NULL;
}

/* The last of all holders, ourselves apart, if there are as many as there are permits. Not all of
 * them need be ahead: an older dlock may have let one pass that waited for fewer. */
static struct contender *find_permit(
	const struct contenders *all, const struct contender *own, int permits)
{
	struct contender *last = NULL;
	int count = 0;

	for (size_t i = 0; i < all->count; i++) {
		struct contender *c = contenders_at(all, i);

		if (c == own || !contender_may_hold(c))
			continue;
		last = c;
		count++;
	}
	return count < permits ? NULL : last;
}

/* A waiter for a permit cannot pass another waiter for a permit, which may want more. */
static bool stops(const struct contender *c, enum lock_mode mode)
{
	return mode == LOCK_EXCLUSIVE || c->mode != mode ||
	       (mode == LOCK_PERMITS && c->state == CONTENDER_WAITING);
}

struct contender *contenders_obstacle(const struct contenders *all, const struct contender *own,
	enum lock_mode mode, int permits, int *rank)
{
	struct contender *last = NULL;

	*rank = 0;
	for (size_t i = 0; i < all->count; i++) {
		struct contender *c = contenders_at(all, i);

		if (c == own)
			break;
		if (!counts(c))
			continue;
		*rank += c->state == CONTENDER_WAITING;
		if (stops(c, mode))
			last = c;
	}
	if (last || mode != LOCK_PERMITS || (own && contender_may_hold(own)))
		return last;
	return find_permit(all, own, permits);
}

static void write_token(
	const struct contender *c, const struct owner *owner, char token[static LOCK_TOKEN_SIZE])
{
	if (strchr(c->id, ':'))
		strlcpy(token, c->id, LOCK_TOKEN_SIZE);
	else
		snprintf(token, LOCK_TOKEN_SIZE, "%s:%d:%s", owner->host, (int)owner->pid, c->id);
}

/* --- For people ------------------------------------------------------------------------------ */

void contender_describe(const struct contender *c, const char *foreign, struct lock_answer *answer)
{
	answer->fence = c->fence;
	if (c->foreign) {
		answer->foreign = foreign;
		return;
	}
	owner_read(&answer->holder, c->owner ? c->owner : "");
	answer->known = answer->holder.pid != 0;
	answer->held_ms = (clock_wall_us() - c->since_us) / 1000;
	if (answer->known && c->state != CONTENDER_OVER)
		write_token(c, &answer->holder, answer->holder_token);
}

static void view_owner(const struct contender *c, int64_t ttl_ms, struct lock_view_owner *view)
{
	int64_t now = clock_wall_us();

	*view = (struct lock_view_owner){.mode = c->mode,
		.ms = c->since_us > 0 && now > c->since_us ? (now - c->since_us) / 1000 : 0,
		.ttl_ms = ttl_ms,
		.since_us = c->since_us,
		.detached = c->detached};
	owner_read(&view->owner, c->owner ? c->owner : "");
}

void contenders_view(
	const struct contenders *all, struct lock_view_owner *owners, struct lock_view *view)
{
	struct lock_view_owner *waiters = owners + all->count;

	view->holders = owners;
	view->waiters = waiters;
	view->ttl_ms = -1;
	for (size_t i = 0; i < all->count; i++) {
		const struct contender *c = contenders_at(all, i);

		if (c->state == CONTENDER_WAITING)
			view_owner(c, -1, &waiters[view->waiter_count++]);
		if (!contender_may_hold(c))
			continue;
		if (c->fence > view->fence)
			view->fence = c->fence;
		if (!c->foreign || view->holder_count == 0)
			view->ttl_ms = c->ttl_ms;
		if (c->foreign) {
			view->foreign = true;
			continue;
		}
		view_owner(c, c->ttl_ms, &owners[view->holder_count++]);
		view->mode = c->mode;
	}
	view->counters.acquisitions = (int64_t)view->holder_count;
	view->counters.contentions = (int64_t)view->waiter_count;
}

bool contenders_show(const struct contenders *all, const char *name, const char *key,
	lock_view_taker *show, void *context, struct failure *failure)
{
	struct lock_view_owner *owners = calloc(2 * all->count + 1, sizeof(*owners));
	struct lock_view view = {.name = name, .key = key};

	if (!owners)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	contenders_view(all, owners, &view);
	if (view.foreign || view.holder_count + view.waiter_count > 0)
		show(&view, context);
	free(owners);
	return true;
}
