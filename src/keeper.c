#include "keeper.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "duration.h"
#include "handover.h"
#include "inherited.h"
#include "message.h"
#include "parting.h"
#include "process_tree.h"
#include "program.h"
#include "renewal.h"
#include "stopping.h"
#include "survivors.h"

#define RELEASE_LIMIT (2 * NANOS_PER_SEC)
#define VERIFY_LIMIT  (5 * NANOS_PER_SEC)
#define RENEWAL_RETRY NANOS_PER_SEC /* when no thread was to be had */

struct keeper {
	const struct keeper_task *task;
	struct lock *lock;
	struct lease *lease;
	struct process_tree tree;
	struct renewal *renewal; /* NULL: the lock is still the main thread's */
	pid_t front;
	int front_fd, signal_fd, lost_fd, timer;
	nanos renewal_due; /* when the thread must be started */

	struct stopping stopping;
	enum lease_stop stop; /* why */
	bool lingering;
	bool warned;   /* --on-lost warn: the one warning was given */
	bool given_up; /* what is left cannot be stopped */
};

static void ring(int fd)
{
	(void)!write(fd, &(uint64_t){1}, sizeof(uint64_t));
}

static void set_phase(struct keeper *k, enum lease_phase phase)
{
	atomic_store(&k->lease->phase, phase);
}

static void settle(struct keeper *k)
{
	sigset_t heeded = k->task->inherited->forwarded;
	sigset_t quiet;

	setpgid(0, 0);
	tree_open(&k->tree);
	sigaddset(&heeded, SIGCHLD);
	k->signal_fd = signalfd(-1, &heeded, SFD_CLOEXEC | SFD_NONBLOCK);
	/* A background process group that writes to a terminal with `stty tostop` would be stopped.
	 */
	sigemptyset(&quiet);
	sigaddset(&quiet, SIGTTOU);
	sigprocmask(SIG_BLOCK, &quiet, NULL);

	k->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	k->timer = clock_timer_open();
	k->front_fd = pidfd_open(k->front, 0);
}

static bool front_is_gone(const struct keeper *k)
{
	struct pollfd front = {.fd = k->front_fd, .events = POLLIN};

	/* The second look: it may have died before pidfd_open, and its pid may be another's by now.
	 */
	return k->front_fd < 0 || poll(&front, 1, 0) > 0 || getppid() != k->front;
}

/* ---- stopping ---- */

/* A tree that is being stopped already goes on as it does; only the reason is another. */
static void stop(struct keeper *k, enum lease_stop why)
{
	k->stop = why;
	if (k->stopping.begun)
		return;
	set_phase(k, LEASE_STOPPING);
	stopping_begin(&k->stopping, &k->tree, k->task->stop_signal, k->task->terms.grace);
}

/* The server may grant the lock to another soon after this moment; where COMMAND was to go on all
 * the same, that is no reason to hurry. */
static nanos kill_limit(const struct keeper *k)
{
	if (k->warned && k->task->warn_when_lost)
		return NANOS_NEVER;
	return lease_kill_at(atomic_load(&k->lease->valid_until));
}

static void go_on_stopping(struct keeper *k)
{
	stopping_step(&k->stopping, &k->tree, kill_limit(k));
	if (k->stopping.killing && atomic_load(&k->lease->phase) == LEASE_STOPPING)
		set_phase(k, LEASE_KILLING);
}

/* The lock is lost and something lives on that we may not signal (set-uid) or that hangs in the
 * kernel. */
static void give_up(struct keeper *k)
{
	k->given_up = true;
	survivors_say(k->lease, &k->tree, MESSAGE_ERROR, "could not stop");
}

/* ---- lingering: COMMAND has ended, or is done for; what is left of its tree keeps the lock ---- */

static void linger(struct keeper *k)
{
	k->lingering = true;
	k->lease->stop = k->stop;
	k->lease->held = clock_now() - k->lease->granted_at;
	survivors_say(k->lease, &k->tree, MESSAGE_WARNING,
		"the lock stays with what COMMAND left running:");
	inherited_close();
	close(k->front_fd);
	k->front_fd = -1;
	set_phase(k, LEASE_LINGERING);
	ring(k->task->news_fd);
}

/* ---- the loop ---- */

static bool is_over(const struct keeper *k)
{
	if (k->tree.empty || k->given_up)
		return true;
	return k->tree.over && k->task->close_early && k->stop == STOP_NONE;
}

static void look_after_tree(struct keeper *k)
{
	bool was_stopped = k->tree.stopped;

	tree_reap(&k->tree);
	if (k->tree.over && !atomic_load(&k->lease->command_over)) {
		k->lease->command_status = k->tree.status;
		atomic_store(&k->lease->command_over, true);
	}
	if (k->tree.stopped != was_stopped) {
		atomic_store(&k->lease->command_stopped, k->tree.stopped);
		if (k->tree.stopped)
			ring(k->task->news_fd);
	}
	if (k->tree.over && !is_over(k) && k->stop == STOP_NONE && !k->lingering)
		linger(k);
}

/* fg sends SIGCONT to the whole job, so COMMAND has it already where it was stopped and is no
 * longer. */
static void forward(struct keeper *k, int sig)
{
	if (sig == SIGCONT && k->tree.stopped) {
		look_after_tree(k);
		if (!k->tree.stopped)
			return;
	}
	if (k->lingering)
		tree_signal(&k->tree, sig);
	else if (!k->tree.over)
		kill(k->tree.command, sig);
}

static void heed_signals(struct keeper *k)
{
	struct signalfd_siginfo info;
	bool child = false;

	while (read(k->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo == SIGCHLD)
			child = true;
		else
			forward(k, (int)info.ssi_signo);
	if (!child)
		return;
	look_after_tree(k);
	go_on_stopping(k);
}

/* Whether a loss of the lock would be news. It outranks that --max-run was up. */
static bool may_be_lost(const struct keeper *k)
{
	return !k->warned && (k->stop == STOP_NONE ||
				     (k->stop == STOP_MAX_RUN && !k->task->warn_when_lost));
}

static void heed_loss(struct keeper *k)
{
	if (!may_be_lost(k) || !atomic_load(&k->lease->lost))
		return;
	k->warned = true;
	if (k->task->warn_when_lost) {
		message_say(MESSAGE_WARNING, "the lock was lost; COMMAND goes on (--on-lost warn)");
		return;
	}
	message_say(MESSAGE_ERROR,
		"the lock was lost: somebody else took it, or it was ended; stopping COMMAND");
	stop(k, STOP_LOST);
}

static void heed_front(struct keeper *k)
{
	if (k->lingering || k->stop != STOP_NONE || !front_is_gone(k))
		return;
	message_say(MESSAGE_ERROR, "dlock (pid %d) was killed; stopping COMMAND", (int)k->front);
	stop(k, STOP_FRONT_GONE);
}

static void start_renewal(struct keeper *k)
{
	k->renewal = renewal_start(k->lock, k->lease, &k->task->terms, k->lost_fd);
	if (k->renewal)
		return;
	message_say(MESSAGE_WARNING, "cannot start the renewal thread: %s", strerror(errno));
	k->renewal_due = clock_now() + RENEWAL_RETRY;
}

static void heed_validity(struct keeper *k, nanos now)
{
	if (!may_be_lost(k) ||
		now < lease_stop_at(&k->task->terms, atomic_load(&k->lease->valid_until)))
		return;
	if (k->task->warn_when_lost) {
		k->warned = true;
		message_say(MESSAGE_WARNING,
			"the lock cannot be proved any longer; COMMAND goes on (--on-lost warn)");
		return;
	}
	message_say(MESSAGE_ERROR, "the lock cannot be proved any longer; stopping COMMAND");
	stop(k, STOP_UNPROVED);
}

static nanos overrun_at(const struct keeper *k)
{
	return lease_overrun_at(&k->task->terms, k->lease->granted_at);
}

static void heed_overrun(struct keeper *k, nanos now)
{
	char span[DURATION_TEXT];

	if (k->stop != STOP_NONE || is_over(k) || now < overrun_at(k))
		return;
	message_say(MESSAGE_ERROR, "ran for more than %s; stopping COMMAND",
		duration_format(k->task->terms.max_run, span));
	stop(k, STOP_MAX_RUN);
}

/* SIGKILL was of no use. As long as the lock can be proved, what lives is waited for, and the lock
 * stays. */
static void heed_hopelessness(struct keeper *k, nanos now)
{
	bool proved = now < atomic_load(&k->lease->valid_until);

	if (!stopping_is_hopeless(&k->stopping, &k->tree))
		return;
	if (!proved || (k->stop != STOP_FRONT_GONE && k->stop != STOP_MAX_RUN))
		give_up(k);
	else if (k->stop == STOP_MAX_RUN && !k->lingering)
		linger(k);
}

static void heed_time(struct keeper *k)
{
	nanos now = clock_now();

	if (!k->renewal && now >= k->renewal_due)
		start_renewal(k);
	heed_validity(k, now);
	heed_overrun(k, now);
	go_on_stopping(k);
	heed_hopelessness(k, now);
}

static nanos earlier(nanos a, nanos b)
{
	return a < b ? a : b;
}

/* The next moment at which heed_time has something to do. */
static nanos next_due(const struct keeper *k)
{
	nanos due = k->renewal ? NANOS_NEVER : k->renewal_due;

	if (may_be_lost(k))
		due = earlier(due, lease_stop_at(&k->task->terms,
					   atomic_load(&k->lease->valid_until)));
	if (k->stop == STOP_NONE)
		return earlier(due, overrun_at(k));
	return earlier(due, stopping_due(&k->stopping, kill_limit(k)));
}

static void wait_for_news(struct keeper *k)
{
	struct pollfd fds[] = {
		{.fd = k->signal_fd, .events = POLLIN},
		{.fd = k->timer, .events = POLLIN},
		{.fd = k->lost_fd, .events = POLLIN},
		{.fd = k->stop == STOP_NONE ? k->front_fd : -1, .events = POLLIN},
		{.fd = k->renewal ? -1 : lock_watch_fd(k->lock), .events = POLLIN},
	};
	uint64_t times;

	clock_timer_set(k->timer, next_due(k));
	if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
		return;
	clock_timer_clear(k->timer);
	(void)!read(k->lost_fd, &times, sizeof(times));
	if (fds[4].revents)
		k->renewal_due = 0; /* the connection dropped: renew on another at once */
}

static void supervise(struct keeper *k)
{
	while (!is_over(k)) {
		wait_for_news(k);
		heed_signals(k);
		heed_loss(k);
		heed_front(k);
		heed_time(k);
	}
}

/* ---- the ends ---- */

/* COMMAND's status, when it ended by itself; else -1. */
static int own_status(const struct keeper *k)
{
	return k->tree.over && k->stop == STOP_NONE ? k->tree.status : -1;
}

/* Gives the lock back and ends. The answer is static: it is large, and there is one. */
static _Noreturn void leave(struct keeper *k)
{
	static struct lock_answer answer;
	struct lock_parting parting = {0}; /* where COMMAND could not be started */
	nanos limit = clock_now() + RELEASE_LIMIT;
	bool ours = true;

	if (k->tree.command > 0)
		parting = parting_terms(k->lease, &k->task->terms, own_status(k));
	if (!k->lingering)
		k->lease->held = clock_now() - k->lease->granted_at;
	k->lease->stop = k->stop;
	k->lease->release_until = limit;
	set_phase(k, LEASE_RELEASING);
	if (k->renewal)
		ours = renewal_finish(k->renewal, &parting, limit, &answer);
	else
		lock_release(k->lock, &parting, (struct patience){limit, -1}, &answer);
	parting_note(k->lease, &k->task->terms, &answer);

	set_phase(k, LEASE_ENDED);
	if (ours && answer.handed_count > 0) {
		ring(k->task->news_fd); /* the front may leave; this is no longer its business */
		handover_verify(k->lock, &answer, VERIFY_LIMIT);
	}
	_exit(0);
}

/* Reads the answer; ends here unless the lock is ours and there is still time to use it. */
static void obtain(struct keeper *k)
{
	struct lock_answer *answer = &k->lease->answer;
	nanos valid_until;

	lock_answer(k->lock, (struct patience){k->task->answer_until, -1}, answer);
	if (answer->result != LOCK_GRANTED) {
		lease_decide(k->lease, LEASE_DENIED);
		_exit(0);
	}
	valid_until = lease_valid_until(&k->task->terms, answer->asked_at);
	atomic_store(&k->lease->valid_until, valid_until);
	k->lease->granted_at = clock_now();
	k->renewal_due = answer->asked_at + lease_renew_every(&k->task->terms);
	if (front_is_gone(k) || k->lease->granted_at >= lease_stop_at(&k->task->terms, valid_until)) {
		/* Nobody to run it for, or granted so late that it is as good as expired. */
		lock_release(
			k->lock, NULL, (struct patience){clock_now() + RELEASE_LIMIT, -1}, answer);
		answer->result = LOCK_TIMEOUT;
		lease_decide(k->lease, LEASE_DENIED);
		_exit(0);
	}
	if (!lease_decide(k->lease, LEASE_HELD))
		pause(); /* cancelled: the front kills us and gives the lock back itself */
}

static void export(const struct keeper *k)
{
	char fence[24];

	snprintf(fence, sizeof(fence), "%" PRIu64, k->lease->answer.fence);
	setenv("DLOCK_NAME", k->task->name, 1);
	setenv("DLOCK_TOKEN", lock_token(k->lock), 1);
	setenv("DLOCK_FENCE", fence, 1);
}

static void run_command(struct keeper *k)
{
	const struct inherited *inherited = k->task->inherited;
	bool exec_failed;
	pid_t group = inherited->terminal ? getpgid(k->front) : 0;

	export(k);
	k->tree.command =
		program_start(k->task->program, inherited, group < 0 ? 0 : group, &exec_failed);
	if (k->tree.command < 0) {
		k->lease->command_errno = errno;
		k->lease->exec_failed = exec_failed;
		leave(k);
	}
	atomic_store(&k->lease->command, k->tree.command);
}

pid_t keeper_start(const struct keeper_task *task)
{
	struct keeper k = {
		.task = task, .lock = task->lock, .lease = task->lease, .front = getpid()};
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	settle(&k);
	obtain(&k);
	run_command(&k);
	supervise(&k);
	leave(&k);
}
