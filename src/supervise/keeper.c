#include "supervise/keeper.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "base/wakeup.h"
#include "lock/handoff.h"
#include "lock/holder.h"
#include "supervise/guardian.h"
#include "supervise/keeper_loop.h"
#include "supervise/keeper_task.h"
#include "supervise/notify.h"
#include "supervise/release_terms.h"
#include "supervise/renewal.h"

/* COMMAND's status, if it ended by itself; else -1. What became of the rest of the tree after that
 * was told is no concern of it. */
static int own_status(const struct keeper_loop *s)
{
	bool stands = s->stop == STOP_NONE || atomic_load(&s->lease->told);

	return s->tree.over && stands ? s->tree.status : -1;
}

/* If the connection is still the front's as well, the keeper only sends the release, and ends while
 * the server works on it: ending a process takes as long as that. */
static void part(struct keeper_loop *s, const struct release_terms *release_terms, nanos limit)
{
	if (s->renewal || s->lingering || keeper_loop_front_is_gone(s))
		return;
	s->lease->release_terms = *release_terms;
	if (!lock_release_send(s->lock, release_terms, release_terms_limit(limit)))
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
	lock_release(s->lock, release_terms, release_terms_limit(limit), answer);
	return true;
}

/* Releases the lock and ends. The answer is static: it is large, and there is one. */
static _Noreturn void leave(struct keeper_loop *s, bool started)
{
	static struct lock_answer answer;
	const struct ward_ops *ward = s->task->run->ward.ops;
	struct release_terms release_terms = {0}; /* if COMMAND could not be started */
	nanos limit = clock_now() + LEASE_RELEASE_LIMIT;
	bool ours;

	s->lease->stop = s->stop;
	if (started)
		release_terms = release_terms_make(s->lease, own_status(s));
	if (!s->lingering)
		s->lease->held = clock_now() - s->lease->granted_at;
	s->lease->release_until = limit;
	atomic_store(&s->lease->phase, LEASE_RELEASING);
	if (ward->releasing)
		ward->releasing(s);
	ours = give_back(s, &release_terms, limit, &answer);
	release_terms_report(s->lease, &answer);

	atomic_store(&s->lease->phase, LEASE_ENDED);
	if (ward->released)
		ward->released(s, &answer);
	if (ours && lock_handed(s->lock)) {
		/* The front may leave; this is no longer its business. Not below another dlock:
		 * that would take us for a descendant which keeps the lock. */
		if (!s->task->nested)
			wakeup_send(s->task->wakeup_fd);
		handoff_verify(s->lock, HANDOFF_LIMIT);
	}
	_exit(0);
}

/* Takes back whatever the request has brought: the lock, or a place in the queue. */
static void take_back(struct keeper_loop *s)
{
	static struct lock_answer answer;

	lock_release(
		s->lock, NULL, release_terms_limit(clock_now() + LEASE_RELEASE_LIMIT), &answer);
	handoff_verify(s->lock, HANDOFF_LIMIT);
}

static struct deadline answer_limit(const struct keeper_loop *s)
{
	const struct keeper_task *task = s->task;

	return (struct deadline){
		.until = task->answer_until, .cancel_fd = -1, .least = task->answer_least};
}

/* What the request handed off is for this process to see to: the front has not read of it. */
static _Noreturn void end_denied(struct keeper_loop *s)
{
	if (lock_handed(s->lock))
		handoff_leave_behind(s->lock);
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
	lease_adopt_ttl(s->lease, answer->ttl_ms);
	valid_until = lease_valid_until(&s->lease->terms, answer->asked_at);
	s->renewal_due = lease_first_renewal(&s->lease->terms, answer->asked_at);
	atomic_store(&s->lease->valid_until, valid_until);
	if (s->lease->granted_at >= lease_stop_at(&s->lease->terms, valid_until)) {
		take_back(s); /* granted so late that it is as good as expired */
		answer->result = LOCK_TIMEOUT;
		failure_set(&answer->failure, EXIT_UNREACHABLE, LEASE_TOO_LATE);
		end_denied(s);
	}
	contact_made(&(struct contact){s->task->contact.lost_at, s->task->contact.told});
	holder_say_grant(answer);
	if (!lease_decide(s->lease, LEASE_HELD))
		pause(); /* cancelled: the front kills us and releases the lock itself */
	guardian_dismiss(s->task->leash);
	if (s->task->notifies)
		notify_await(s->lease, s->task->wakeup_fd);
}

/* There are no descriptors left to watch with: reads the answer, and takes back what it brings. */
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

pid_t keeper_start(const struct keeper_task *task)
{
	const struct ward_ops *ward = task->run->ward.ops;
	struct keeper_loop s;
	pid_t front = getpid();
	pid_t pid = fork();
	bool started;

	if (pid != 0)
		return pid;
	if (!ward->own_session || setsid() < 0)
		setpgid(0, 0);
	if (!keeper_loop_open(&s, task, front))
		refuse(&s);
	obtain(&s);
	started = ward->start(&s);
	if (started)
		keeper_loop_run(&s);
	leave(&s, started);
}
