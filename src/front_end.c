/* How a run ends: with the keeper's word, or without it. */
#include "front_own.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>

#include "handover.h"
#include "hold.h"
#include "keeper.h"
#include "message.h"
#include "outcome.h"
#include "parting.h"
#include "program.h"
#include "survivors.h"

static void tell_run(struct front *f)
{
	struct outcome *outcome = f->outcome;
	const struct lease *lease = f->lease;

	/* What it handed on is of no interest, and large. */
	memcpy(&outcome->answer, &lease->answer, offsetof(struct lock_answer, handed));
	outcome->waited = lease->answer.asked_at - f->task->started;
	outcome->command_ended = atomic_load(&lease->command_over);
	outcome->command_status = lease->command_status;
	outcome->held = lease->held;
	outcome->reclaimed = atomic_load(&lease->reclaimed);
	memcpy(outcome->survivors, lease->survivors, sizeof(outcome->survivors));
}

static enum outcome_kind end_of_run(const struct front *f)
{
	static const enum outcome_kind stopped[] = {
		[STOP_NONE] = OUTCOME_RAN,
		[STOP_LOST] = OUTCOME_LOST,
		[STOP_UNPROVED] = OUTCOME_LOST,
		[STOP_FRONT_GONE] = OUTCOME_LOST,
		[STOP_MAX_RUN] = OUTCOME_MAX_RUN,
	};
	enum outcome_kind kind = stopped[f->lease->stop];

	if (atomic_load(&f->lease->lost))
		return OUTCOME_LOST;
	return kind == OUTCOME_RAN && f->watch.overrun ? OUTCOME_MAX_RUN : kind;
}

void front_hear_parting(struct front *f, const struct keeper_task *order)
{
	struct lock_answer *answer = &f->outcome->answer; /* until tell_run puts the grant there */

	lock_learn(f->lock, &f->lease->answer);
	lock_hear(f->lock, &f->lease->parting, (struct patience){f->lease->release_until, -1},
		answer);
	parting_note(f->lease, &order->terms, answer);
	handover_see_to(f->lock, answer);
}

void front_conclude(struct front *f)
{
	const struct lease *lease = f->lease;

	tell_run(f);
	if (lease->command_errno != 0) {
		struct failure failure;

		failure_set(&failure, lease->exec_failed ? EXIT_NOT_EXECUTABLE : EXIT_SYSTEM,
			"cannot execute '%s': %s", f->task->program->argv[0],
			strerror(lease->command_errno));
		outcome_fail(f->outcome, &failure);
		return;
	}
	f->outcome->kind = end_of_run(f);
	watch_note_signals(&f->watch);
	/* A shell's loop ends when what it runs dies of Ctrl-C, not when it exits with 130. */
	if (f->outcome->kind == OUTCOME_RAN && WIFSIGNALED(lease->command_status) &&
		WTERMSIG(lease->command_status) == f->watch.terminal_signal)
		f->outcome->end_signal = f->watch.terminal_signal;
}

void front_conclude_hold(struct front *f)
{
	tell_run(f);
	watch_note_signals(&f->watch);
	if (f->watch.ending_signal != 0) {
		f->outcome->kind = OUTCOME_CANCELLED;
		f->outcome->end_signal = f->watch.ending_signal;
		return;
	}
	hold_conclude(f->task->hold, f->lease, lock_token(f->lock), f->outcome);
}

static const char *explain_takeover(const struct front *f)
{
	if (f->watch.stood_still)
		return "dlock's keeper stood still and the lock could not be proved any longer; "
		       "COMMAND was stopped";
	if (f->watch.overrun)
		return "dlock's keeper stood still and --max-run was up; COMMAND was stopped";
	if (atomic_load(&f->lease->command) == 0)
		return "dlock's keeper was killed";
	return "dlock's keeper was killed; COMMAND was stopped";
}

static enum outcome_kind end_of_takeover(const struct front *f, const struct lock_answer *release)
{
	if (f->watch.stood_still || atomic_load(&f->lease->lost) || release->result == LOCK_LOST)
		return OUTCOME_LOST;
	return f->watch.overrun ? OUTCOME_MAX_RUN : OUTCOME_KILLED;
}

/* COMMAND's status, when it ended by itself before the keeper was killed, and nothing of it was
 * left; else -1. */
static int own_status(const struct front *f)
{
	bool stopped = f->watch.stopping.begun || f->watch.overrun || f->watch.stood_still ||
		       f->lease->stop != STOP_NONE;

	switch (atomic_load(&f->lease->phase)) {
	case LEASE_HELD:
	case LEASE_RELEASING:
		return f->outcome->command_ended && !stopped ? f->outcome->command_status : -1;
	default:
		return -1;
	}
}

void front_take_over(struct front *f, const struct keeper_task *order)
{
	static struct lock_answer answer;  /* large, and seldom needed */
	struct lock_parting parting = {0}; /* where COMMAND was not started */
	nanos limit;

	watch_stop_orphans(&f->watch, order); /* takes its time: the grace */
	limit = clock_now() + RELEASE_LIMIT;
	if (!f->watch.tree.empty)
		survivors_say(f->lease, &f->watch.tree, MESSAGE_ERROR, "could not stop");
	tell_run(f);
	if (f->lease->granted_at != 0)
		f->outcome->held = clock_now() - f->lease->granted_at;
	if (f->watch.tree.over) {
		f->outcome->command_ended = true;
		f->outcome->command_status = f->watch.tree.status;
	}
	message_say(MESSAGE_ERROR, "%s", explain_takeover(f));
	if (f->lease->answer.result == LOCK_GRANTED)
		lock_learn(f->lock, &f->lease->answer);
	lock_reset(f->lock); /* the keeper has used these connections */
	if (atomic_load(&f->lease->command) != 0)
		parting = parting_terms(f->lease, &order->terms, own_status(f));
	if (f->watch.tree.empty) {
		lock_release(f->lock, &parting, (struct patience){limit, -1}, &answer);
	} else { /* what lives on is to have the lock as long as the server keeps it */
		answer = (struct lock_answer){.result = LOCK_TIMEOUT};
		message_say(MESSAGE_WARNING, "the lock is not given back; it frees itself");
	}
	f->outcome->kind = end_of_takeover(f, &answer);
	handover_see_to(f->lock, &answer);
}
