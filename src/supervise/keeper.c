#include "supervise/keeper.h"

#include <bsd/string.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/message.h"
#include "base/wakeup.h"
#include "lock/asking.h"
#include "lock/handoff.h"
#include "lock/holder.h"
#include "lock/nesting.h"
#include "process/caller_state.h"
#include "process/process.h"
#include "supervise/keeper_loop.h"
#include "supervise/task.h"
#include "supervise/notify.h"
#include "supervise/release_terms.h"
#include "supervise/renewal.h"

#define CANCEL_LIMIT (500 * NANOS_PER_MS) /* taking the request back if it is not late yet, */
#define LATE_LIMIT   (80 * NANOS_PER_MS)  /* and if it is: -w is kept to 100 ms */
#define FRONT_LOOKS  NANOS_PER_SEC        /* within that, for a dlock around this one */

/* ---- asking ---- */

static void expect(void *context, nanos until)
{
	const struct keeper_loop *s = context;

	atomic_store(&s->lease->answer_due, until);
}

/* A service manager hears of the wait by the front. */
static void tell_of_wait(const struct keeper_loop *s)
{
	if (s->task->notifies)
		wakeup_send(s->task->wakeup_fd);
}

static void unreached(void *context, const struct failure *why)
{
	const struct keeper_loop *s = context;

	wait_page_tell_unreached(&s->lease->waits, why);
	tell_of_wait(s);
}

static void denied(void *context, const struct lock_answer *answer)
{
	const struct keeper_loop *s = context;

	wait_page_tell(&s->lease->waits, answer);
	tell_of_wait(s);
}

/* The front has looked once when it was time; since then we do. */
static bool is_around(void *context, const struct lock_answer *answer, bool may_look)
{
	const struct front_task *run = ((const struct keeper_loop *)context)->task->run;

	return nesting_has(run->nesting, run->request->self, answer,
		may_look || clock_now() - run->started > FRONT_LOOKS);
}

/* The front has found locks that are held around us. */
static bool has_learnt(const struct keeper_loop *s)
{
	struct nesting *nesting = s->task->run->nesting;

	if (!atomic_exchange(&s->lease->has_learnt, false))
		return false;
	strlcpy(nesting->held, s->lease->learnt, sizeof(nesting->held));
	return true;
}

static enum asking_news read_news(void *context)
{
	const struct keeper_loop *s = context;
	char bytes[16];

	while (read(s->task->news_fd, bytes, sizeof(bytes)) > 0)
		continue;
	if (atomic_load(&s->lease->phase) == LEASE_CANCELLED || keeper_loop_front_is_gone(s))
		return ASKING_ENDS;
	return has_learnt(s) ? ASKING_BEGINS_ANEW : ASKING_GOES_ON;
}

/* A front that was stopped by itself (kill -STOP) is to get no COMMAND started. It tells when it
 * goes on. */
static bool front_runs(void *context)
{
	const struct keeper_loop *s = context;
	struct process front;

	return !process_read(s->front, &front) || front.state != 'T';
}

/* From here on no Ctrl-C, no Ctrl-Z and no `kill %1` reaches the keeper. The front has had as well
 * what the group was sent meanwhile; it passes on what comes after the grant. */
static void leave_group(const struct keeper_loop *s)
{
	struct signalfd_siginfo info;

	keeper_loop_shield();
	if (!s->task->run->ward.ops->own_session || setsid() < 0)
		setpgid(0, 0);
	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		continue;
}

/* A front that is to act on it hears of it. In a short run none is. */
static void tell_of_grant(const struct keeper_loop *s)
{
	if (s->task->notifies)
		notify_await(s->lease, s->task->wakeup_fd);
	else if (s->task->run->caller_state->terminal && atomic_load(&s->lease->waits.told) > 0)
		wakeup_send(s->task->wakeup_fd);
}

static enum lock_result use(void *context, struct lock_answer *granted)
{
	struct keeper_loop *s = context;
	struct lease *lease = s->lease;
	nanos valid_until;

	lease->granted_at = clock_now();
	lease_adopt_ttl(lease, granted->ttl_ms);
	valid_until = lease_valid_until(&lease->terms, granted->asked_at);
	s->renewal_due = lease_first_renewal(&lease->terms, granted->asked_at);
	if (!s->lock) /* the hosts have it, and renew */
		valid_until = s->renewal_due = NANOS_NEVER;
	atomic_store(&lease->valid_until, valid_until);
	if (lease->granted_at >= lease_stop_at(&lease->terms, lease_validity(lease))) {
		lease->granted_at = 0;
		atomic_store(&lease->valid_until, 0);
		failure_set(&granted->failure, EXIT_UNREACHABLE, LEASE_TOO_LATE);
		return LOCK_TIMEOUT;
	}
	wait_page_end(&lease->waits);
	leave_group(s);
	if (s->lock)
		guests_open(&s->guests, lock_token(s->lock));
	if (keeper_loop_front_is_gone(s) || !lease_decide(lease, LEASE_HELD)) {
		lease->granted_at = 0;
		atomic_store(&lease->valid_until, 0);
		return LOCK_CANCELLED;
	}
	granted->fence = keeper_loop_fence(s, s->task->run->name);
	holder_say_grant(granted);
	tell_of_grant(s);
	return LOCK_GRANTED;
}

static const struct asking_ops keeper_asking = {
	.expect = expect,
	.unreached = unreached,
	.denied = denied,
	.is_around = is_around,
	.news = read_news,
	.is_ready = front_runs,
	.use = use,
};

/* The front has been told, and may have ended. */
static void go_on_alone(const struct keeper_loop *s)
{
	prctl(PR_SET_NAME, HANDOFF_PROGRAM);
	caller_state_close(s->task->run->caller_state);
	/* Not below another dlock: that would take us for a descendant which keeps the lock. */
	if (!s->task->nested)
		wakeup_send(s->task->wakeup_fd);
}

/* The time may be up. */
static bool is_late(enum lock_result result)
{
	return result == LOCK_BUSY || result == LOCK_FAILED;
}

/* The lock was not had: tells the front why, and gives back what was asked for. */
static _Noreturn void end_denied(struct keeper_loop *s, struct asking *asking,
	enum lock_result result, const struct failure *failure)
{
	struct lease *lease = s->lease;

	if (result == LOCK_BUSY || result == LOCK_ALREADY)
		lease->answer = asking->denial;
	lease->answered_at = asking->denied_at;
	lease->answer.result = result;
	lease->answer.failure = *failure;
	wait_page_end(&lease->waits);
	asking_withdraw(asking, is_late(result) ? LATE_LIMIT : CANCEL_LIMIT, HANDOFF_GLANCE);
	lease->unheard = asking->outstanding && asking->may_hold;
	atomic_store(&lease->phase, LEASE_ENDED);
	if (s->lock && (asking->outstanding || lock_handed(s->lock))) {
		go_on_alone(s);
		asking_withdraw(asking, LEASE_RELEASE_LIMIT, HANDOFF_LIMIT);
		handoff_verify(s->lock, HANDOFF_LIMIT);
	}
	_exit(0);
}

/* Ends here unless the lock is ours and there is still time to use it. */
static void take(struct keeper_loop *s)
{
	const struct front_task *run = s->task->run;
	static struct asking asking; /* large */
	struct failure failure;
	enum lock_result result;

	asking = (struct asking){.lock = s->lock,
		.ops = &keeper_asking,
		.context = s,
		.started = run->started,
		.wait = run->wait,
		.cancel_fd = s->task->news_fd};
	if (s->lock)
		result = asking_run(&asking, &s->lease->answer, &failure);
	else if ((result = use(s, &s->lease->answer)) == LOCK_FAILED || result == LOCK_TIMEOUT)
		failure = s->lease->answer.failure, result = LOCK_FAILED;
	if (result != LOCK_GRANTED)
		end_denied(s, &asking, result, &failure);
	close(s->task->news_fd); /* hold's caller is to find nothing of it */
}

/* ---- the end ---- */

/* COMMAND's status, if it ended by itself; else -1. If that was told, it stands, whatever became of
 * the rest of the tree after it. */
static int own_status(const struct keeper_loop *s)
{
	bool stands = s->stop == STOP_NONE || atomic_load(&s->lease->told);

	return s->tree.over && stands ? s->tree.status : -1;
}

/* Whether the lock is the main thread's afterwards. */
static bool give_back(struct keeper_loop *s, const struct release_terms *release_terms, nanos limit,
	struct lock_answer *answer)
{
	if (!s->lock) {
		*answer = (struct lock_answer){.result = LOCK_RELEASED};
		return false;
	}
	if (s->given_up && s->stop != STOP_LOST) {
		/* Processes that live on are to have the lock as long as the server keeps it. */
		*answer = (struct lock_answer){.result = LOCK_TIMEOUT};
		return false;
	}
	if (s->renewal)
		return renewal_finish(s->renewal, release_terms, limit, answer);
	lock_release(s->lock, release_terms, release_terms_limit(limit), answer);
	return true;
}

/* Releases the lock and ends. The answer is static: it is large, and there is one. */
static _Noreturn void release(struct keeper_loop *s, bool started)
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
	guests_dismiss(&s->guests);
	if (ward->releasing)
		ward->releasing(s);
	ours = give_back(s, &release_terms, limit, &answer);
	release_terms_report(s->lease, &answer);

	atomic_store(&s->lease->phase, LEASE_ENDED);
	if (ward->released)
		ward->released(s, &answer);
	if (ours && lock_handed(s->lock)) {
		go_on_alone(s);
		handoff_verify(s->lock, HANDOFF_LIMIT);
	}
	_exit(0);
}

/* There are no descriptors left to watch with. */
static _Noreturn void refuse(const struct keeper_task *task)
{
	task->lease->answer.result = LOCK_FAILED;
	failure_set(&task->lease->answer.failure, EXIT_SYSTEM, "cannot watch over COMMAND: %s",
		strerror(errno));
	atomic_store(&task->lease->phase, LEASE_ENDED);
	_exit(0);
}

/* --- the story ---- */

pid_t keeper_start(const struct keeper_task *task)
{
	static struct keeper_loop s;
	pid_t front = getpid();
	pid_t pid = fork();
	bool started;

	if (pid != 0)
		return pid;
	close(task->tell_fd); /* or the front's end could not be seen there */
	if (!keeper_loop_open(&s, task, front))
		refuse(task);
	take(&s);
	started = task->run->ward.ops->start(&s);
	if (started)
		keeper_loop_run(&s);
	release(&s, started);
}
