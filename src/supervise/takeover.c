#include "supervise/takeover.h"

#include "base/message.h"
#include "lock/handoff.h"
#include "supervise/keeper_task.h"
#include "supervise/keeper_watch.h"
#include "supervise/release_terms.h"
#include "supervise/survivors.h"

/* Whether the keeper was stopping COMMAND for that when it died. */
static bool is_lost(const struct keeper_watch *watch)
{
	return watch->lease->stop == STOP_LOST || watch->lease->stop == STOP_UNPROVED;
}

static const char *explain_takeover(const struct keeper_watch *watch)
{
	if (watch->stood_still)
		return "dlock's keeper stood still and the lock could not be proved any longer; "
		       "COMMAND was stopped";
	if (watch->overrun)
		return "dlock's keeper stood still and --max-run was up; COMMAND was stopped";
	if (is_lost(watch))
		return "dlock's keeper was killed when the lock could not be proved any longer; "
		       "COMMAND was stopped";
	if (atomic_load(&watch->lease->command) == 0)
		return "dlock's keeper was killed";
	return "dlock's keeper was killed; COMMAND was stopped";
}

static enum outcome_kind end_of_takeover(
	const struct keeper_watch *watch, const struct lock_answer *release)
{
	if (watch->stood_still || atomic_load(&watch->lease->lost) ||
		release->result == LOCK_LOST || is_lost(watch))
		return OUTCOME_LOST;
	return watch->overrun || watch->lease->stop == STOP_MAX_RUN ? OUTCOME_MAX_RUN
								    : OUTCOME_KILLED;
}

/* COMMAND's status, if it ended by itself before the keeper was killed, and either that was told or
 * nothing of it was left; else -1. */
static int own_status(const struct keeper_watch *watch)
{
	bool stopped = watch->stopping.begun || watch->overrun || watch->stood_still ||
		       watch->lease->stop != STOP_NONE;

	if (atomic_load(&watch->lease->told))
		return watch->lease->command_status;
	switch (atomic_load(&watch->lease->phase)) {
	case LEASE_HELD:
	case LEASE_RELEASING:
		return atomic_load(&watch->lease->command_over) && !stopped
			       ? watch->lease->command_status
			       : -1;
	default:
		return -1;
	}
}

/* Over a connection of its own: the keeper has used the others. What lives on is to have the lock
 * as long as the server keeps it. */
static void give_back(struct keeper_watch *watch, const struct keeper_task *order, nanos limit,
	struct lock_answer *answer)
{
	struct release_terms release_terms = {0}; /* if COMMAND was not started */

	if (watch->lease->answer.result == LOCK_GRANTED ||
		watch->lease->answer.result == LOCK_WITHIN)
		lock_adopt_answer(order->run->lock, &watch->lease->answer);
	lock_leave(order->run->lock);
	if (atomic_load(&watch->lease->command) != 0)
		release_terms = release_terms_make(watch->lease, own_status(watch));
	if (watch->tree.empty)
		lock_release(order->run->lock, &release_terms, release_terms_limit(limit), answer);
	else
		*answer = (struct lock_answer){.result = LOCK_TIMEOUT};
}

enum outcome_kind takeover(struct keeper_watch *watch, const struct keeper_task *order)
{
	static struct lock_answer answer; /* large, and seldom needed */
	struct lease *lease = watch->lease;
	nanos limit;

	keeper_watch_stop_orphans(watch, order); /* takes its time: the grace */
	limit = clock_now() + LEASE_RELEASE_LIMIT;
	if (watch->tree.over) {
		atomic_store(&lease->command_over, true);
		lease->command_status = watch->tree.status;
	}
	if (lease->granted_at != 0)
		lease->held = clock_now() - lease->granted_at;
	give_back(watch, order, limit, &answer);
	if (!watch->tree.empty)
		survivors_say(lease, &watch->tree, MESSAGE_ERROR, "could not stop");
	message_say(MESSAGE_ERROR, "%s", explain_takeover(watch));
	if (!watch->tree.empty)
		message_say(MESSAGE_WARNING, "the lock is not released; it frees itself");
	handoff_see_to(order->run->lock);
	return end_of_takeover(watch, &answer);
}
