#include "supervise/takeover.h"

#include <poll.h>

#include "base/duration.h"
#include "base/message.h"
#include "supervise/guest.h"
#include "supervise/task.h"
#include "supervise/keeper_watch.h"
#include "supervise/release_terms.h"
#include "supervise/renewal.h"
#include "supervise/survivors.h"

#define LOOK_EVERY     20                   /* ms: whether a guest has left */
#define WITHDRAW_LIMIT (500 * NANOS_PER_MS) /* for each lock: the caller waits */

/* Whether the keeper was stopping COMMAND for that when it died. */
static bool is_lost(const struct keeper_watch *watch)
{
	return watch->lease->stop == STOP_LOST || watch->lease->stop == STOP_UNPROVED;
}

static const char *explain_takeover(const struct keeper_watch *watch)
{
	if (watch->stood_still)
		return "dlock's keeper stood still and the lock could not be proved any longer";
	if (watch->overrun)
		return "dlock's keeper stood still and --max-run was up";
	if (is_lost(watch))
		return "dlock's keeper was killed when the lock could not be proved any longer";
	return "dlock's keeper was killed";
}

/* ended: COMMAND had ended by itself before. */
static const char *explain_end(const struct keeper_watch *watch, bool ended)
{
	if (atomic_load(&watch->lease->command) == 0)
		return "";
	if (!ended)
		return "; COMMAND was stopped";
	return watch->stopping.begun ? "; what COMMAND left running was stopped"
				     : "; COMMAND had ended";
}

static enum outcome_kind end_of_takeover(
	const struct keeper_watch *watch, const struct lock_answer *release)
{
	/* A keeper that was releasing may have done so, and not every service remembers that. */
	bool gone = release->result == LOCK_LOST &&
		    atomic_load(&watch->lease->phase) != LEASE_RELEASING;

	if (watch->stood_still || atomic_load(&watch->lease->lost) || gone || is_lost(watch))
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

bool takeover_withdraw(const struct keeper_watch *watch)
{
	static struct lock_answer answer; /* large, and seldom needed */
	nanos span = WITHDRAW_LIMIT * (nanos)(1 + watch->task->also_count);
	struct deadline limit = {.until = clock_now() + span, .cancel_fd = -1};

	if (!watch->task->lock)
		return true;
	lock_take_over(watch->task->lock, NULL);
	lock_release(watch->task->lock, NULL, limit, &answer);
	lock_verify(watch->task->lock, LOCK_VERIFY_GLANCE);
	return answer.result != LOCK_TIMEOUT && answer.result != LOCK_FAILED;
}

/* The guests hear of the keeper's end, and stop what they run. A lock that no time ends waits for
 * them, whatever that takes: it would end with us. */
static bool have_left(const struct lease *lease)
{
	while (guests_have_page(lease) && clock_now() < lease_validity(lease))
		(void)poll(NULL, 0, LOOK_EVERY);
	return !guests_have_page(lease);
}

/* The guardian's: the keeper that has ended is on record as the owner. So the guardian renews as
 * long as it stops what is left, and with that puts itself on record. If there are several locks it
 * knows too little for that. NULL: nothing is renewed. */
static struct renewal *renew_beside(struct keeper_watch *watch)
{
	struct lease *lease = watch->lease;
	struct renewal *renewal;

	if (tree_is_ours(&watch->tree) || lease->granted_at == 0 || watch->task->also_count > 0)
		return NULL;
	owner_pass_on(&lease->owner);
	renewal = renewal_open(watch->task->lock, lease, watch->task->wakeup_fd);
	(void)renewal_start(renewal); /* else it only releases */
	return renewal;
}

/* Over a connection of its own: the keeper has used the others. Processes that live on are to have
 * the lock as long as the server keeps it. True: the lock is the main thread's afterwards. */
static bool give_back(
	struct keeper_watch *watch, struct renewal *renewal, struct lock_answer *answer)
{
	struct release_terms release_terms = {0}; /* if COMMAND was not started */
	nanos limit;

	*answer = (struct lock_answer){.result = watch->task->lock ? LOCK_TIMEOUT : LOCK_RELEASED};
	if (!watch->task->lock) /* a guest's */
		return false;
	if (atomic_load(&watch->lease->command) != 0)
		release_terms = release_terms_make(watch->lease, own_status(watch));
	if (!watch->tree.empty || !have_left(watch->lease))
		return !renewal;
	limit = clock_now() + release_terms_span(watch->task);
	return renewal_finish(renewal, watch->task->lock, &release_terms, limit, answer);
}

enum outcome_kind takeover(struct keeper_watch *watch)
{
	static struct lock_answer answer; /* large, and seldom needed */
	struct lease *lease = watch->lease;
	bool ended = atomic_load(&lease->command_over), is_ours;
	struct renewal *renewal = NULL;
	char span[DURATION_TEXT];

	if (watch->task->lock) {
		lock_take_over(watch->task->lock, lease->granted_at != 0 ? &lease->answer : NULL);
		renewal = renew_beside(watch);
	}
	keeper_watch_stop_orphans(watch); /* takes its time: the grace */
	if (watch->tree.over) {
		atomic_store(&lease->command_over, true);
		lease->command_status = watch->tree.status;
	}
	if (lease->granted_at != 0)
		lease->held = clock_now() - lease->granted_at;
	is_ours = give_back(watch, renewal, &answer);
	if (!watch->tree.empty)
		survivors_say(lease, &watch->tree, MESSAGE_ERROR, "could not stop");
	message_say(MESSAGE_ERROR, "%s%s", explain_takeover(watch), explain_end(watch, ended));
	if (answer.result == LOCK_TIMEOUT || answer.result == LOCK_FAILED)
		message_say(MESSAGE_WARNING, "the lock is not released; it frees itself%s%s",
			lease->terms.ttl == NANOS_NEVER ? "" : " within ",
			lease->terms.ttl == NANOS_NEVER ? ""
							: duration_format(lease->terms.ttl, span));
	if (is_ours)
		lock_verify(watch->task->lock, LOCK_VERIFY_GLANCE);
	return end_of_takeover(watch, &answer);
}
