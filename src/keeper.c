#include "keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "handover.h"
#include "inherited.h"
#include "news.h"
#include "parting.h"
#include "program.h"
#include "renewal.h"
#include "supervision.h"

#define RELEASE_LIMIT (2 * NANOS_PER_SEC)
#define VERIFY_LIMIT  (5 * NANOS_PER_SEC)

/* COMMAND's status, when it ended by itself; else -1. */
static int own_status(const struct supervision *s)
{
	return s->tree.over && s->stop == STOP_NONE ? s->tree.status : -1;
}

/* Gives the lock back and ends. The answer is static: it is large, and there is one. */
static _Noreturn void leave(struct supervision *s)
{
	static struct lock_answer answer;
	struct lock_parting parting = {0}; /* where COMMAND could not be started */
	nanos limit = clock_now() + RELEASE_LIMIT;
	bool ours = true;

	if (s->tree.command > 0)
		parting = parting_terms(s->lease, &s->task->terms, own_status(s));
	if (!s->lingering)
		s->lease->held = clock_now() - s->lease->granted_at;
	s->lease->stop = s->stop;
	s->lease->release_until = limit;
	atomic_store(&s->lease->phase, LEASE_RELEASING);
	if (s->given_up && s->stop != STOP_LOST)
		/* What lives on is to have the lock as long as the server keeps it. */
		answer = (struct lock_answer){.result = LOCK_TIMEOUT};
	else if (s->renewal)
		ours = renewal_finish(s->renewal, &parting, limit, &answer);
	else
		lock_release(s->lock, &parting, (struct patience){limit, -1}, &answer);
	parting_note(s->lease, &s->task->terms, &answer);

	atomic_store(&s->lease->phase, LEASE_ENDED);
	if (ours && answer.handed_count > 0) {
		/* The front may leave; this is no longer its business. */
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
	if (answer->result != LOCK_GRANTED)
		end_denied(s);

	valid_until = lease_valid_until(&s->task->terms, answer->asked_at);
	atomic_store(&s->lease->valid_until, valid_until);
	s->lease->granted_at = clock_now();
	s->renewal_due = answer->asked_at + lease_renew_every(&s->task->terms);
	if (s->lease->granted_at >= lease_stop_at(&s->task->terms, valid_until)) {
		take_back(s); /* granted so late that it is as good as expired */
		answer->result = LOCK_TIMEOUT;
		end_denied(s);
	}
	if (!lease_decide(s->lease, LEASE_HELD))
		pause(); /* cancelled: the front kills us and gives the lock back itself */
}

static void export(const struct supervision *s)
{
	char fence[24];

	snprintf(fence, sizeof(fence), "%" PRIu64, s->lease->answer.fence);
	setenv("DLOCK_NAME", s->task->name, 1);
	setenv("DLOCK_TOKEN", lock_token(s->lock), 1);
	setenv("DLOCK_FENCE", fence, 1);
}

static void run_command(struct supervision *s)
{
	const struct inherited *inherited = s->task->inherited;
	bool exec_failed;
	pid_t group = inherited->terminal ? getpgid(s->front) : 0;

	export(s);
	s->tree.command =
		program_start(s->task->program, inherited, group < 0 ? 0 : group, &exec_failed);
	if (s->tree.command < 0) {
		s->lease->command_errno = errno;
		s->lease->exec_failed = exec_failed;
		leave(s);
	}
	atomic_store(&s->lease->command, s->tree.command);
}

pid_t keeper_start(const struct keeper_task *task)
{
	struct supervision s;
	pid_t front = getpid();
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	setpgid(0, 0);
	supervision_open(&s, task, front);
	obtain(&s);
	run_command(&s);
	supervision_run(&s);
	leave(&s);
}
