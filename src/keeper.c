#include "keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ancestry.h"
#include "decimal.h"
#include "handover.h"
#include "hold.h"
#include "inherited.h"
#include "message.h"
#include "news.h"
#include "parting.h"
#include "program.h"
#include "renewal.h"
#include "supervision.h"

#define FENCE_ROOM    "00000000000000000000" /* as long as the greatest uint64_t */
#define RELEASE_LIMIT (2 * NANOS_PER_SEC)
#define VERIFY_LIMIT  (5 * NANOS_PER_SEC)

/* COMMAND's status, when it ended by itself; else -1. */
static int own_status(const struct supervision *s)
{
	return s->tree.over && s->stop == STOP_NONE ? s->tree.status : -1;
}

/* Where the connection is still the front's as well, the keeper only sends the release, and ends
 * while the server works on it: ending a process takes as long as that. */
static void part(struct supervision *s, const struct lock_parting *parting, nanos limit)
{
	if (s->renewal || s->lingering || supervision_front_is_gone(s))
		return;
	s->lease->parting = *parting;
	if (!lock_part(s->lock, parting, (struct patience){limit, -1}))
		return;
	atomic_store(&s->lease->phase, LEASE_PARTED);
	_exit(0);
}

/* Whether the lock is the main thread's afterwards. */
static bool give_back(struct supervision *s, const struct lock_parting *parting, nanos limit,
	struct lock_answer *answer)
{
	if (s->given_up && s->stop != STOP_LOST) {
		/* What lives on is to have the lock as long as the server keeps it. */
		*answer = (struct lock_answer){.result = LOCK_TIMEOUT};
		return false;
	}
	part(s, parting, limit);
	if (s->renewal)
		return renewal_finish(s->renewal, parting, limit, answer);
	lock_release(s->lock, parting, (struct patience){limit, -1}, answer);
	return true;
}

/* Gives the lock back and ends. The answer is static: it is large, and there is one. */
static _Noreturn void leave(struct supervision *s)
{
	static struct lock_answer answer;
	struct lock_parting parting = {0}; /* where COMMAND could not be started */
	nanos limit = clock_now() + RELEASE_LIMIT;
	bool ours;

	if (s->tree.command > 0 || s->task->hold)
		parting = parting_terms(s->lease, &s->task->terms, own_status(s));
	if (!s->lingering)
		s->lease->held = clock_now() - s->lease->granted_at;
	s->lease->stop = s->stop;
	s->lease->release_until = limit;
	atomic_store(&s->lease->phase, LEASE_RELEASING);
	doorbell_close(&s->bell);
	ours = give_back(s, &parting, limit, &answer);
	parting_note(s->lease, &s->task->terms, &answer);

	atomic_store(&s->lease->phase, LEASE_ENDED);
	if (s->task->hold)
		hold_end(s, answer.result);
	if (ours && answer.handed_count > 0) {
		/* The front may leave; this is no longer its business. Not below another dlock:
		 * that would take us for a descendant which keeps the lock. */
		if (!s->task->nested)
			news_ring(s->task->news_fd);
		handover_verify(s->lock, &answer, VERIFY_LIMIT);
	}
	_exit(0);
}

/* Takes back whatever the request has brought: the lock, or a place in the queue. */
static void take_back(struct supervision *s)
{
	static struct lock_answer answer;

	lock_release(s->lock, NULL, (struct patience){clock_now() + RELEASE_LIMIT, -1}, &answer);
	handover_verify(s->lock, &answer, VERIFY_LIMIT);
}

static _Noreturn void end_denied(struct supervision *s)
{
	lease_decide(s->lease, LEASE_DENIED);
	_exit(0);
}

/* Reads the answer; ends here unless the lock is ours and there is still time to use it. */
static void obtain(struct supervision *s)
{
	struct lock_answer *answer = &s->lease->answer;
	nanos valid_until;

	lock_answer(s->lock, (struct patience){s->task->answer_until, -1}, answer);
	if (supervision_front_is_gone(s)) {
		take_back(s);
		end_denied(s);
	}
	if (answer->result != LOCK_GRANTED && answer->result != LOCK_WITHIN)
		end_denied(s);

	s->lease->granted_at = clock_now();
	if (answer->result == LOCK_WITHIN) {
		/* The dlock around us renews it, and stops us with the rest of its tree. Half,
		 * because moments are counted from it. */
		valid_until = s->renewal_due = NANOS_NEVER / 2;
	} else {
		valid_until = lease_valid_until(&s->task->terms, answer->asked_at);
		s->renewal_due = answer->asked_at + lease_renew_every(&s->task->terms);
	}
	atomic_store(&s->lease->valid_until, valid_until);
	if (s->lease->granted_at >= lease_stop_at(&s->task->terms, valid_until)) {
		take_back(s); /* granted so late that it is as good as expired */
		answer->result = LOCK_TIMEOUT;
		end_denied(s);
	}
	if (answer->server[0] != '\0')
		message_say(MESSAGE_INFO, "granted by %s", answer->server);
	if (!lease_decide(s->lease, LEASE_HELD))
		pause(); /* cancelled: the front kills us and gives the lock back itself */
}

/* There are no descriptors left to watch with: the answer is awaited, and what it brings taken
 * back. */
static _Noreturn void refuse(struct supervision *s)
{
	struct lock_answer *answer = &s->lease->answer;
	int error = errno;

	lock_answer(s->lock, (struct patience){s->task->answer_until, -1}, answer);
	take_back(s);
	answer->result = LOCK_FAILED;
	failure_set(
		&answer->failure, EXIT_SYSTEM, "cannot watch over COMMAND: %s", strerror(error));
	end_denied(s);
}

/* Below another dlock the lock may turn out to be that one's: then all is set after the answer. */
static void export_nested(const struct supervision *s)
{
	const struct lock_answer *answer = &s->lease->answer;
	bool within = answer->result == LOCK_WITHIN;
	const char *token = within ? answer->holder_token : lock_token(s->lock);
	uint64_t number =
		within ? ancestry_fence(s->task->name, token, answer->fence) : answer->fence;
	char fence[DECIMAL_SIZE];

	decimal_write_unsigned(fence, number);
	setenv("DLOCK_NAME", s->task->name, 1);
	setenv("DLOCK_TOKEN", token, 1);
	setenv("DLOCK_FENCE", fence, 1);
	if (!within)
		unsetenv("DLOCK_FENCES");
}

/* While the answer is on its way; the fence is filled in when it has come. */
static void prepare_environment(const struct supervision *s)
{
	if (s->task->nested || s->task->hold)
		return;
	setenv("DLOCK_NAME", s->task->name, 1);
	setenv("DLOCK_TOKEN", lock_token(s->lock), 1);
	setenv("DLOCK_FENCE", FENCE_ROOM, 1);
}

static void export_answer(const struct supervision *s)
{
	const char *fences = lock_fences(s->lock);
	const char *token = getenv("DLOCK_TOKEN");
	char *fence = getenv("DLOCK_FENCE");

	if (s->task->nested)
		export_nested(s);
	else if (fence)
		decimal_write_unsigned(fence, s->lease->answer.fence);
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

static void run_command(struct supervision *s)
{
	const struct inherited *inherited = s->task->inherited;
	bool exec_failed;
	pid_t group = inherited->terminal ? getpgid(s->front) : 0;

	export_answer(s);
	s->tree.command =
		program_start(s->task->program, inherited, group < 0 ? 0 : group, &exec_failed);
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
	struct supervision s;
	pid_t front = getpid();
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	/* hold outlives a script that may have the terminal: no Ctrl-C, and no hangup. */
	if (!task->hold || setsid() < 0)
		setpgid(0, 0);
	if (!supervision_open(&s, task, front))
		refuse(&s);
	prepare_environment(&s);
	obtain(&s);
	if (task->hold)
		hold_begin(&s);
	else
		run_command(&s);
	supervision_run(&s);
	leave(&s);
}
