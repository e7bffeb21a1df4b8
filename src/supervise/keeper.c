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
#include "lock/holder.h"
#include "lock/nesting.h"
#include "process/caller_state.h"
#include "process/process.h"
#include "supervise/keeper_loop.h"
#include "supervise/task.h"
#include "supervise/notify.h"
#include "supervise/release_terms.h"
#include "supervise/renewal.h"
#include "supervise/survivors.h"

/* ---- asking ---- */

static void expect(void *context, nanos until)
{
	const struct keeper_loop *loop = context;

	atomic_store(&loop->lease->answer_due, until);
}

static void unreached(void *context, const struct failure *why)
{
	const struct keeper_loop *loop = context;

	wait_page_tell_unreached(&loop->lease->waits, why);
	keeper_loop_notify(loop);
}

static void denied(void *context, const struct lock_answer *answer)
{
	const struct keeper_loop *loop = context;

	wait_page_tell(&loop->lease->waits, answer);
	keeper_loop_notify(loop);
}

/* The front has found locks that are held around us. */
static bool has_learnt(const struct keeper_loop *loop)
{
	struct nesting *nesting = loop->task->nesting;

	if (!atomic_exchange(&loop->lease->has_learnt, false))
		return false;
	strlcpy(nesting->held, loop->lease->learnt, sizeof(nesting->held));
	return true;
}

static enum asking_news read_news(void *context)
{
	const struct keeper_loop *loop = context;
	char bytes[16];

	while (read(loop->task->news_fd, bytes, sizeof(bytes)) > 0)
		continue;
	if (atomic_load(&loop->lease->phase) == LEASE_CANCELLED || keeper_loop_front_is_gone(loop))
		return ASKING_ENDS;
	return has_learnt(loop) ? ASKING_BEGINS_ANEW : ASKING_GOES_ON;
}

/* A front that was stopped by itself (kill -STOP) is to get no COMMAND started. It tells when it
 * goes on. */
static bool front_runs(void *context)
{
	const struct keeper_loop *loop = context;
	struct process front;

	return !process_read(loop->front, &front) || front.state != 'T';
}

/* From here on no Ctrl-C, no Ctrl-Z and no `kill %1` reaches the keeper. The front has had as well
 * what the group was sent meanwhile; it passes on what comes after the grant. A background process
 * group that writes to a terminal with `stty tostop` would be stopped; so would we by a Ctrl-Z
 * while we are in COMMAND's group (leave_session). */
static void leave_group(const struct keeper_loop *loop)
{
	struct signalfd_siginfo info;
	sigset_t stopping;

	sigemptyset(&stopping);
	sigaddset(&stopping, SIGTTOU);
	sigaddset(&stopping, SIGTSTP);
	sigprocmask(SIG_BLOCK, &stopping, NULL);
	if (!loop->task->ward.ops->own_session || setsid() < 0)
		setpgid(0, 0);
	while (read(loop->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		continue;
}

/* A front that is to act on it hears of it. In a short run none is. */
static void tell_of_grant(const struct keeper_loop *loop)
{
	if (loop->task->notifies)
		notify_await(loop->lease, loop->task->wakeup_fd);
	else if (loop->task->caller_state->terminal && atomic_load(&loop->lease->waits.told) > 0)
		wakeup_send(loop->task->wakeup_fd);
}

static enum lock_result use(void *context, struct lock_answer *granted)
{
	struct keeper_loop *loop = context;
	struct lease *lease = loop->lease;
	nanos valid_until;

	lease->granted_at = clock_now();
	lease_adopt_ttl(lease, granted->ttl_ms);
	valid_until = lease_valid_until(&lease->terms, granted->asked_at);
	loop->renewal_due = lease_first_renewal(&lease->terms, granted->asked_at);
	if (!loop->lock) /* the hosts have it, and renew */
		valid_until = loop->renewal_due = NANOS_NEVER;
	atomic_store(&lease->valid_until, valid_until);
	if (lease->granted_at >= lease_stop_at(&lease->terms, lease_validity(lease))) {
		lease->granted_at = 0;
		atomic_store(&lease->valid_until, 0);
		failure_set(&granted->failure, EXIT_UNREACHABLE, LEASE_TOO_LATE);
		return LOCK_TIMEOUT;
	}
	wait_page_end(&lease->waits);
	leave_group(loop);
	if (loop->lock)
		guests_open(&loop->guests, lock_token(loop->lock));
	if (keeper_loop_front_is_gone(loop) || !lease_decide(lease, LEASE_HELD)) {
		lease->granted_at = 0;
		atomic_store(&lease->valid_until, 0);
		return LOCK_CANCELLED;
	}
	granted->fence = guest_fence(loop->task, loop->task->name);
	holder_say_grant(granted);
	tell_of_grant(loop);
	return LOCK_GRANTED;
}

static const struct asking_ops keeper_asking = {
	.expect = expect,
	.unreached = unreached,
	.denied = denied,
	.news = read_news,
	.is_ready = front_runs,
	.use = use,
};

/* The front has been told, and may have ended. */
static void go_on_alone(const struct keeper_loop *loop)
{
	prctl(PR_SET_NAME, HANDOFF_PROGRAM);
	caller_state_close(loop->task->caller_state);
	/* Not below another dlock: that would take us for a descendant which keeps the lock. */
	if (!loop->task->nested)
		wakeup_send(loop->task->wakeup_fd);
}

/* The lock was not had: tells the front why, and gives back what was asked for. */
static _Noreturn void end_denied(struct keeper_loop *loop, struct asking *asking,
	enum lock_result result, const struct failure *failure)
{
	struct lease *lease = loop->lease;

	if (result == LOCK_BUSY || result == LOCK_ALREADY)
		lease->answer = asking->denial;
	lease->answered_at = asking->denied_at;
	lease->answer.result = result;
	lease->answer.failure = *failure;
	wait_page_end(&lease->waits);
	asking_give_up(asking, result);
	lease->unheard = asking->outstanding && asking->may_hold;
	atomic_store(&lease->phase, LEASE_ENDED);
	if (loop->lock && (asking->outstanding || lock_verify(loop->lock, 0))) {
		go_on_alone(loop);
		asking_withdraw(asking, release_terms_span(loop->task), LOCK_VERIFY_LIMIT);
		lock_verify(loop->lock, LOCK_VERIFY_LIMIT);
	}
	_exit(0);
}

/* Ends here unless the lock is ours and there is still time to use it. */
static void take(struct keeper_loop *loop)
{
	const struct task *run = loop->task;
	static struct asking asking; /* large */
	struct failure failure;
	enum lock_result result;

	asking = (struct asking){.lock = loop->lock,
		.ops = &keeper_asking,
		.context = loop,
		.nesting = run->nesting,
		.self = run->request->self,
		.started = run->started,
		.wait = run->wait,
		.cancel_fd = loop->task->news_fd};
	if (loop->lock)
		result = asking_run(&asking, &loop->lease->answer, &failure);
	else if ((result = use(loop, &loop->lease->answer)) == LOCK_FAILED ||
		 result == LOCK_TIMEOUT)
		failure = loop->lease->answer.failure, result = LOCK_FAILED;
	if (result != LOCK_GRANTED)
		end_denied(loop, &asking, result, &failure);
	close(loop->task->news_fd); /* hold's caller is to find nothing of it */
}

/* ---- the end ---- */

/* COMMAND's status, if it ended by itself; else -1. If that was told, it stands, whatever became of
 * the rest of the tree after it. */
static int own_status(const struct keeper_loop *loop)
{
	bool stands = loop->stop == STOP_NONE || atomic_load(&loop->lease->told);

	return loop->tree.over && stands ? loop->tree.status : -1;
}

/* Whether the lock is the main thread's afterwards. */
static bool give_back(struct keeper_loop *loop, const struct release_terms *release_terms,
	nanos limit, struct lock_answer *answer)
{
	if (!loop->lock) {
		*answer = (struct lock_answer){.result = LOCK_RELEASED};
		return false;
	}
	if (loop->given_up && loop->stop != STOP_LOST) {
		/* Processes that live on are to have the lock as long as the server keeps it. */
		*answer = (struct lock_answer){.result = LOCK_TIMEOUT};
		return false;
	}
	return renewal_finish(loop->renewal, loop->lock, release_terms, limit, answer);
}

/* Releases the lock and ends. The answer is static: it is large, and there is one. */
static _Noreturn void release(struct keeper_loop *loop, bool started)
{
	static struct lock_answer answer;
	const struct ward_ops *ward = loop->task->ward.ops;
	struct release_terms release_terms = {0}; /* if COMMAND could not be started */
	nanos limit = clock_now() + release_terms_span(loop->task);
	bool ours;

	loop->lease->stop = loop->stop;
	if (started)
		release_terms = release_terms_make(loop->lease, own_status(loop));
	if (!loop->lingering)
		loop->lease->held = clock_now() - loop->lease->granted_at;
	loop->lease->release_until = limit;
	atomic_store(&loop->lease->phase, LEASE_RELEASING);
	guests_dismiss(&loop->guests);
	if (ward->releasing)
		ward->releasing(loop);
	ours = give_back(loop, &release_terms, limit, &answer);
	release_terms_report(loop->lease, &answer);

	atomic_store(&loop->lease->phase, LEASE_ENDED);
	if (ward->released)
		ward->released(loop, &answer);
	if (ours && lock_verify(loop->lock, 0)) {
		go_on_alone(loop);
		lock_verify(loop->lock, LOCK_VERIFY_LIMIT);
	}
	_exit(0);
}

/* There are no descriptors left to watch with. */
static _Noreturn void refuse(const struct task *task)
{
	task->lease->answer.result = LOCK_FAILED;
	failure_set(&task->lease->answer.failure, EXIT_SYSTEM, "cannot watch over COMMAND: %s",
		strerror(errno));
	atomic_store(&task->lease->phase, LEASE_ENDED);
	_exit(0);
}

/* --- the story ---- */

pid_t keeper_start(const struct task *task)
{
	static struct keeper_loop loop;
	pid_t front = getpid();
	pid_t pid = fork();
	bool started;

	if (pid != 0)
		return pid;
	close(task->tell_fd); /* or the front's end could not be seen there */
	if (!keeper_loop_open(&loop, task, front))
		refuse(task);
	take(&loop);
	started = task->ward.ops->start(&loop);
	if (started)
		keeper_loop_run(&loop);
	release(&loop, started);
}
