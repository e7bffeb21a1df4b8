#include "lock/contest.h"

#include <string.h>

/* A contender that is not there any more does not count. */
static enum lock_result look(const struct contest *contest, struct contender *c,
	struct deadline deadline, struct failure *failure)
{
	enum lock_result result = LOCK_GRANTED;

	if (contest->ops->look)
		result = contest->ops->look(contest->lock, c, deadline, failure);
	if (result == LOCK_GONE)
		c->state = CONTENDER_RELEASED;
	return result;
}

/* --- One attempt ----------------------------------------------------------------------------- */

/* The obstacle is as contenders_obstacle says: the answer is LOCK_BUSY, or a failure. */
static void busy(const struct contest *contest, struct contenders *all,
	const struct contender *obstacle, struct deadline deadline, struct lock_answer *answer)
{
	const struct lock_request *request = contest->request;
	struct contender *holder = contenders_holder(all);
	/* Any of the holders of a permit may be the one that comes free. */
	bool any = request->watched ||
		   (request->mode == LOCK_PERMITS && obstacle && obstacle->mode == LOCK_PERMITS &&
			   contender_may_hold(obstacle));

	if (holder && strcmp(holder->id, contest->id) == 0)
		holder = NULL;
	answer->result = holder ? look(contest, holder, deadline, &answer->failure) : LOCK_GONE;
	if (answer->result != LOCK_GRANTED && answer->result != LOCK_GONE)
		return;
	if (answer->result == LOCK_GRANTED)
		contender_describe(holder, contest->ops->foreign, answer);
	answer->result = LOCK_BUSY;
	if (!request->queues)
		answer->rank = -1;
	answer->look_at = NANOS_NEVER;
	answer->free_in_ms = -1;
	contest->ops->wait_for(contest->lock, all, holder, any ? NULL : obstacle, deadline, answer);
}

void contest_decide(const struct contest *contest, struct contenders *all, struct deadline deadline,
	struct lock_answer *answer)
{
	const struct contest_ops *ops = contest->ops;
	const struct lock_request *request = contest->request;
	struct contender *own, *obstacle;
	bool lost = false;

	own = ops->find_own(contest->lock, all, &lost);
	if (lost) {
		answer->result = LOCK_LOST;
		return;
	}
	obstacle = contenders_obstacle(all, own, request->mode, request->permits, &answer->rank);
	if (!own && (!obstacle || request->queues))
		ops->enter(contest->lock, !obstacle, deadline, answer);
	else if (!obstacle)
		ops->claim(contest->lock, deadline, answer);
	else
		busy(contest, all, obstacle, deadline, answer);
}

/* --- By force -------------------------------------------------------------------------------- */

/* With a fence only the holder that has it. */
static bool is_meant(const struct contest *contest, const struct contender *c)
{
	int64_t fence = contest->request->fence;

	return fence == 0 || (!c->foreign && c->fence == (uint64_t)fence);
}

static void tell_of(const struct contest *contest, const struct contender *c,
	lock_holder_taker *tell, void *context)
{
	struct lock_answer held = {.result = LOCK_BUSY, .free_in_ms = -1};

	contender_describe(c, contest->ops->foreign, &held);
	held.detached = c->detached || c->state == CONTENDER_OVER;
	if (!c->foreign && c->ttl_ms > 0)
		held.free_in_ms = c->ttl_ms;
	tell(&held, context);
}

void contest_force(const struct contest *contest, const struct contenders *all,
	lock_holder_taker *tell, void *context, struct deadline deadline,
	struct lock_answer *answer)
{
	bool any = false;

	for (size_t i = 0; i < all->count; i++) {
		struct contender *c = contenders_at(all, i);

		if (!contender_may_hold(c))
			continue;
		answer->result = look(contest, c, deadline, &answer->failure);
		if (answer->result == LOCK_GRANTED && !is_meant(contest, c))
			continue;
		if (answer->result == LOCK_GRANTED)
			answer->result =
				contest->ops->end(contest->lock, c, deadline, &answer->failure);
		if (answer->result != LOCK_GRANTED && answer->result != LOCK_GONE)
			return;
		if (answer->result == LOCK_GRANTED)
			tell_of(contest, c, tell, context);
		any = any || answer->result == LOCK_GRANTED;
	}
	answer->result = any ? LOCK_RELEASED : LOCK_GONE;
}
