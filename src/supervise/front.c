#include "supervise/front.h"

#include <errno.h>
#include <string.h>

#include "base/duration.h"
#include "base/failure.h"
#include "base/message.h"
#include "lock/asking.h"
#include "supervise/keeper_task.h"
#include "supervise/keeper_watch.h"
#include "supervise/notify.h"
#include "supervise/outcome.h"
#include "supervise/takeover.h"

void front_record_denial(const struct front_task *task, enum lock_result result,
	const struct lock_answer *answer, const struct failure *failure, struct outcome *outcome)
{
	outcome->answer = *answer;
	outcome->waited = clock_now() - task->started;
	switch (result) {
	case LOCK_BUSY:
		outcome->kind = task->wait == 0 ? OUTCOME_BUSY : OUTCOME_TIMEOUT;
		break;
	case LOCK_ALREADY:
		outcome->kind = OUTCOME_ALREADY;
		break;
	default:
		outcome_fail(outcome, failure);
		break;
	}
}

void front_say_left(const struct front_task *task, struct outcome *outcome)
{
	struct failure *failure = &outcome->failure;
	char span[DURATION_TEXT];

	duration_format(task->lease->terms.ttl, span);
	if (failure->code != EXIT_DONE)
		failure_set(failure, failure->code,
			"%s; if the lock was granted all the same, it frees itself within %s",
			failure->text, span);
	else
		message_say(MESSAGE_WARNING,
			"what was asked for could not be taken back yet; if the lock was granted, "
			"it frees itself within %s",
			span);
}

/* A signal came before the grant, or the end of what the lock was for. */
static bool was_cancelled(
	const struct front_task *task, const struct keeper_watch *watch, struct outcome *outcome)
{
	struct failure failure;

	if (watch->cancel_signal != 0) {
		outcome->kind = OUTCOME_CANCELLED;
		outcome->end_signal = watch->cancel_signal;
	} else if (watch->ward_gone) {
		task->ward.ops->explain_end(task->ward.own, &failure);
		outcome_fail(outcome, &failure);
	} else {
		return false;
	}
	outcome->waited = clock_now() - task->started;
	return true;
}

/* The keeper has done its work, or does without us: settles the outcome. */
static void conclude(
	const struct front_task *task, struct keeper_watch *watch, struct outcome *outcome)
{
	const struct lease *lease = task->lease;

	if (lease->granted_at == 0) {
		if (!was_cancelled(task, watch, outcome))
			front_record_denial(task, lease->answer.result, &lease->answer,
				&lease->answer.failure, outcome);
		outcome->answered_at = lease->answered_at;
		if (lease->unheard)
			front_say_left(task, outcome);
		return;
	}
	outcome_read_lease(outcome, lease, task->started);
	keeper_watch_record_signals(watch);
	task->ward.ops->conclude(task->ward.own, watch, lock_token(task->lock), outcome);
}

/* The keeper died before its work was done, or was killed as it stood still. */
static void take_over(const struct front_task *task, struct keeper_watch *watch,
	const struct keeper_task *order, bool late, struct outcome *outcome)
{
	static struct lock_answer answer; /* large */
	enum outcome_kind kind;
	bool taken_back;

	if (!late) {
		kind = takeover(watch, order);
		outcome_read_lease(outcome, task->lease, task->started);
		outcome->kind = kind;
		if (task->lease->granted_at == 0)
			was_cancelled(task, watch, outcome);
		return;
	}
	taken_back = takeover_withdraw(order);
	if (!was_cancelled(task, watch, outcome)) {
		if (!wait_page_read(&task->lease->waits, &answer, &outcome->answered_at)) {
			answer.result = LOCK_FAILED;
			failure_set(&answer.failure, EXIT_UNREACHABLE, "no answer from the server");
		}
		front_record_denial(task, answer.result, &answer, &answer.failure, outcome);
	}
	if (!taken_back)
		front_say_left(task, outcome);
}

/* In phase LINGERING the last of the tree may end meanwhile, and the keeper with it, as it should.
 */
static bool left_alone(struct keeper_watch *watch, const struct keeper_task *order)
{
	const struct ward_ops *ward = order->run->ward.ops;

	return atomic_load(&watch->lease->phase) == LEASE_LINGERING && ward->leave_behind &&
	       !ward->leave_behind(watch, order) &&
	       atomic_load(&watch->lease->phase) != LEASE_ENDED;
}

static void fail(struct outcome *outcome, const char *what)
{
	struct failure failure;

	failure_set(&failure, EXIT_SYSTEM, "%s%s", what, strerror(errno));
	outcome_fail(outcome, &failure);
}

static void run(const struct front_task *task, struct notify *notify, struct outcome *outcome)
{
	struct keeper_task order = {
		.run = task,
		.notifies = notify->wanted,
		.nested = task->nesting->tokens[0] != '\0',
	};
	struct keeper_watch watch;
	enum keeper_watch_end end;

	if (!keeper_watch_open(&watch, task) || !tree_open(&watch.tree)) {
		fail(outcome, "");
		return;
	}
	watch.notify = notify;
	if (!keeper_watch_start(&watch, &order)) {
		fail(outcome, errno == ENOSYS
				      ? "dlock needs Linux 5.3 or later, for pidfd_open(2): "
				      : "cannot fork: ");
		return;
	}
	end = keeper_watch_run(&watch, &order);
	if (end == KEEPER_WATCH_OVER && !left_alone(&watch, &order))
		conclude(task, &watch, outcome);
	else
		take_over(task, &watch, &order, end == KEEPER_WATCH_LATE, outcome);
}

void front_run(const struct front_task *task, struct outcome *outcome)
{
	struct notify notify;

	task->lease->terms = task->terms;
	notify_open(&notify, task->name, task->notify_ready);
	run(task, &notify, outcome);
	notify_end(&notify, outcome);
}
