#include "supervise/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "base/number.h"
#include "base/wakeup.h"
#include "hold/hold.h"
#include "lock/handoff.h"
#include "lock/holder.h"
#include "lock/nesting.h"
#include "process/caller_state.h"
#include "process/program.h"
#include "supervise/guardian.h"
#include "supervise/keeper_loop.h"
#include "supervise/release_terms.h"
#include "supervise/renewal.h"

#define FENCE_ROOM    "00000000000000000000" /* as long as the greatest uint64_t */
#define RELEASE_LIMIT (2 * NANOS_PER_SEC)
#define VERIFY_LIMIT  (5 * NANOS_PER_SEC)

static struct deadline release_limit(nanos until)
{
	return (struct deadline){.until = until, .cancel_fd = -1, .least = LEASE_RELEASE_LEAST};
}

/* COMMAND's status, when it ended by itself; else -1. */
static int own_status(const struct keeper_loop *s)
{
	return s->tree.over && s->stop == STOP_NONE ? s->tree.status : -1;
}

/* Where the connection is still the front's as well, the keeper only sends the release, and ends
 * while the server works on it: ending a process takes as long as that. */
static void part(struct keeper_loop *s, const struct release_terms *release_terms, nanos limit)
{
	if (s->renewal || s->lingering || keeper_loop_front_is_gone(s))
		return;
	s->lease->release_terms = *release_terms;
	if (!lock_release_send(s->lock, release_terms, release_limit(limit)))
		return;
	atomic_store(&s->lease->phase, LEASE_RELEASE_SENT);
	_exit(0);
}

/* Whether the lock is the main thread's afterwards. */
static bool give_back(struct keeper_loop *s, const struct release_terms *release_terms, nanos limit,
	struct lock_answer *answer)
{
	if (s->given_up && s->stop != STOP_LOST) {
		/* What lives on is to have the lock as long as the server keeps it. */
		*answer = (struct lock_answer){.result = LOCK_TIMEOUT};
		return false;
	}
	part(s, release_terms, limit);
	if (s->renewal)
		return renewal_finish(s->renewal, release_terms, limit, answer);
	lock_release(s->lock, release_terms, release_limit(limit), answer);
	return true;
}

/* Gives the lock back and ends. The answer is static: it is large, and there is one. */
static _Noreturn void leave(struct keeper_loop *s)
{
	static struct lock_answer answer;
	struct release_terms release_terms = {0}; /* where COMMAND could not be started */
	nanos limit = clock_now() + RELEASE_LIMIT;
	bool ours;

	if (s->tree.command > 0 || s->task->hold)
		release_terms = release_terms_make(s->lease, &s->task->terms, own_status(s));
	if (!s->lingering)
		s->lease->held = clock_now() - s->lease->granted_at;
	s->lease->stop = s->stop;
	s->lease->release_until = limit;
	atomic_store(&s->lease->phase, LEASE_RELEASING);
	release_socket_close(&s->release_socket);
	ours = give_back(s, &release_terms, limit, &answer);
	release_terms_report(s->lease, &s->task->terms, &answer);

	atomic_store(&s->lease->phase, LEASE_ENDED);
	if (s->task->hold)
		hold_end(s, &answer);
	if (ours && lock_handed(s->lock)) {
		/* The front may leave; this is no longer its business. Not below another dlock:
		 * that would take us for a descendant which keeps the lock. */
		if (!s->task->nested)
			wakeup_send(s->task->wakeup_fd);
		handoff_verify(s->lock, VERIFY_LIMIT);
	}
	_exit(0);
}

/* Takes back whatever the request has brought: the lock, or a place in the queue. */
static void take_back(struct keeper_loop *s)
{
	static struct lock_answer answer;

	lock_release(s->lock, NULL, release_limit(clock_now() + RELEASE_LIMIT), &answer);
	handoff_verify(s->lock, VERIFY_LIMIT);
}

static struct deadline answer_limit(const struct keeper_loop *s)
{
	const struct keeper_task *task = s->task;

	return (struct deadline){
		.until = task->answer_until, .cancel_fd = -1, .least = task->answer_least};
}

/* What the request handed on is this process's to see to: the front has not heard of it. */
static _Noreturn void end_denied(struct keeper_loop *s)
{
	if (lock_handed(s->lock))
		handoff_leave_behind(s->lock, VERIFY_LIMIT);
	lease_decide(s->lease, LEASE_DENIED);
	_exit(0);
}

/* Reads the answer; ends here unless the lock is ours and there is still time to use it. */
static void obtain(struct keeper_loop *s)
{
	struct lock_answer *answer = &s->lease->answer;
	nanos valid_until;

	lock_answer(s->lock, answer_limit(s), answer);
	if (keeper_loop_front_is_gone(s)) {
		take_back(s);
		end_denied(s);
	}
	if (answer->result != LOCK_GRANTED && answer->result != LOCK_WITHIN)
		end_denied(s);

	s->lease->granted_at = clock_now();
	valid_until = lease_valid_until(&s->task->terms, answer->asked_at);
	s->renewal_due = answer->asked_at + lease_renew_every(&s->task->terms);
	atomic_store(&s->lease->valid_until, valid_until);
	if (s->lease->granted_at >= lease_stop_at(&s->task->terms, valid_until)) {
		take_back(s); /* granted so late that it is as good as expired */
		answer->result = LOCK_TIMEOUT;
		failure_set(&answer->failure, EXIT_UNREACHABLE, LEASE_TOO_LATE);
		end_denied(s);
	}
	holder_say_grant(answer);
	if (!lease_decide(s->lease, LEASE_HELD))
		pause(); /* cancelled: the front kills us and gives the lock back itself */
	guardian_dismiss(s->task->leash);
}

/* There are no descriptors left to watch with: the answer is awaited, and what it brings taken
 * back. */
static _Noreturn void refuse(struct keeper_loop *s)
{
	struct lock_answer *answer = &s->lease->answer;
	int error = errno;

	lock_answer(s->lock, answer_limit(s), answer);
	take_back(s);
	answer->result = LOCK_FAILED;
	failure_set(
		&answer->failure, EXIT_SYSTEM, "cannot watch over COMMAND: %s", strerror(error));
	end_denied(s);
}

/* Below another dlock the lock may turn out to be that one's: then all is set after the answer. */
static void export_nested(const struct keeper_loop *s)
{
	const struct lock_answer *answer = &s->lease->answer;
	bool within = answer->result == LOCK_WITHIN;
	const char *token = within ? answer->holder_token : lock_token(s->lock);
	uint64_t number =
		within ? nesting_fence(s->task->name, token, answer->fence) : answer->fence;
	char fence[NUMBER_SIZE];

	number_write_unsigned(fence, number);
	setenv("DLOCK_NAME", s->task->name, 1);
	setenv("DLOCK_TOKEN", token, 1);
	setenv("DLOCK_FENCE", fence, 1);
	if (!within)
		unsetenv("DLOCK_FENCES");
}

/* While the answer is on its way; the fence is filled in when it has come. */
static void prepare_environment(const struct keeper_loop *s)
{
	if (s->task->nested || s->task->hold)
		return;
	setenv("DLOCK_NAME", s->task->name, 1);
	setenv("DLOCK_TOKEN", lock_token(s->lock), 1);
	setenv("DLOCK_FENCE", FENCE_ROOM, 1);
}

static void export_answer(const struct keeper_loop *s)
{
	const char *fences = lock_fences(s->lock);
	const char *token = getenv("DLOCK_TOKEN");
	char *fence = getenv("DLOCK_FENCE");

	if (s->task->nested)
		export_nested(s);
	else if (fence)
		number_write_unsigned(fence, s->lease->answer.fence);
	/* On a quorum an attempt that failed had another token. */
	if (!s->task->nested && (!token || strcmp(token, lock_token(s->lock)) != 0))
		setenv("DLOCK_TOKEN", lock_token(s->lock), 1);
	if (fences)
		setenv("DLOCK_FENCES", fences, 1);
}

/* Where the terminal's shell is gone, or there never was one (`ssh -t HOST dlock ...`), nobody
 * could continue a job that Ctrl-Z has stopped, so the kernel lets none be stopped, and ends those
 * that are: a group of which no member's parent is in another group of the same session (orphaned
 * process group, POSIX.1-2017 3.264; will_become_orphaned_pgrp() in kernel/exit.c). COMMAND's
 * parent must not be taken for such a shell. Only who leads no group can leave the session
 * (setsid(2)). */
static void leave_session(pid_t group)
{
	if (setpgid(0, group) == 0 && setsid() < 0)
		setpgid(0, 0); /* somebody is in ours: COMMAND, where vfork is a fork (valgrind) */
}

static void run_command(struct keeper_loop *s)
{
	const struct caller_state *caller_state = s->task->caller_state;
	bool exec_failed;
	pid_t group = caller_state->terminal ? getpgid(s->front) : 0;

	export_answer(s);
	s->tree.command =
		program_start(s->task->program, caller_state, group < 0 ? 0 : group, &exec_failed);
	if (s->tree.command < 0) {
		s->lease->command_errno = errno;
		s->lease->exec_failed = exec_failed;
		leave(s);
	}
	atomic_store(&s->lease->command, s->tree.command);
	if (group > 0)
		leave_session(group);
}

pid_t keeper_start(const struct keeper_task *task)
{
	struct keeper_loop s;
	pid_t front = getpid();
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	/* hold outlives a script that may have the terminal: no Ctrl-C, and no hangup. */
	if (!task->hold || setsid() < 0)
		setpgid(0, 0);
	if (!keeper_loop_open(&s, task, front))
		refuse(&s);
	prepare_environment(&s);
	obtain(&s);
	if (task->hold)
		hold_begin(&s);
	else
		run_command(&s);
	keeper_loop_run(&s);
	leave(&s);
}
