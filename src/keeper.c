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

#include "ancestry.h"
#include "handover.h"
#include "inherited.h"
#include "message.h"
#include "process_tree.h"
#include "program.h"
#include "renewal.h"
#include "stopping.h"

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
	nanos granted_at;
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

static void stop(struct keeper *k, enum lease_stop why)
{
	k->stop = why;
	set_phase(k, LEASE_STOPPING);
	stopping_begin(&k->stopping, &k->tree, k->task->stop_signal, k->task->terms.grace);
}

/* The server may grant the lock to another soon after this moment. */
static nanos kill_limit(const struct keeper *k)
{
	return lease_kill_at(atomic_load(&k->lease->valid_until));
}

static void go_on_stopping(struct keeper *k)
{
	stopping_step(&k->stopping, &k->tree, kill_limit(k));
	if (k->stopping.killing && atomic_load(&k->lease->phase) == LEASE_STOPPING)
		set_phase(k, LEASE_KILLING);
}

static const char *pids_text(const pid_t *pids, size_t count, char *text, size_t size)
{
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < count && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%d", i ? ", " : "", (int)pids[i]);
	return text;
}

/* The lock is lost and something lives on that we may not signal (set-uid) or that hangs in the
 * kernel. */
static void give_up(struct keeper *k)
{
	char text[LEASE_SURVIVORS * 13];
	size_t count = tree_list(&k->tree, k->lease->survivors, LEASE_SURVIVORS);

	k->given_up = true;
	message_say(MESSAGE_ERROR, "could not stop %s",
		pids_text(k->lease->survivors, count, text, sizeof(text)));
}

/* ---- lingering: COMMAND has ended, descendants of it keep the lock ---- */

static void linger(struct keeper *k)
{
	char text[LEASE_SURVIVORS * 13];
	size_t count = tree_list(&k->tree, k->lease->survivors, LEASE_SURVIVORS);

	k->lingering = true;
	k->lease->held = clock_now() - k->granted_at;
	message_say(MESSAGE_WARNING, "the lock stays with what COMMAND left running: %s",
		pids_text(k->lease->survivors, count, text, sizeof(text)));
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

static void heed_loss(struct keeper *k)
{
	if (k->warned || k->stop != STOP_NONE || !atomic_load(&k->lease->lost))
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
	if (k->warned || k->stop != STOP_NONE ||
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

static void heed_time(struct keeper *k)
{
	nanos now = clock_now();

	if (!k->renewal && now >= k->renewal_due)
		start_renewal(k);
	heed_validity(k, now);
	go_on_stopping(k);
	/* As long as the lock can be proved, what lives is waited for, and the lock stays. */
	if (stopping_is_hopeless(&k->stopping, &k->tree) &&
		(k->stop != STOP_FRONT_GONE || now >= atomic_load(&k->lease->valid_until)))
		give_up(k);
}

/* The next moment at which heed_time has something to do. */
static nanos next_due(const struct keeper *k)
{
	nanos due = k->renewal ? NANOS_NEVER : k->renewal_due;
	nanos other = NANOS_NEVER;

	if (k->stop != STOP_NONE)
		other = stopping_due(&k->stopping, kill_limit(k));
	else if (!k->warned)
		other = lease_stop_at(&k->task->terms, atomic_load(&k->lease->valid_until));
	return due < other ? due : other;
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

static void note_release(struct keeper *k, const struct lock_answer *answer)
{
	switch (answer->result) {
	case LOCK_RELEASED:
		return;
	case LOCK_GONE:
		message_say(MESSAGE_INFO,
			"the lock was no longer there when it was given back; nobody else had it");
		return;
	case LOCK_LOST:
		if (!atomic_exchange(&k->lease->lost, true))
			message_say(MESSAGE_ERROR, "the lock was lost while COMMAND ran: somebody "
						   "else took it, or it was ended");
		return;
	default:
		if (k->stop == STOP_UNPROVED)
			return; /* that was said already */
		k->lease->release_failed = true;
		message_say(MESSAGE_WARNING,
			"could not give the lock back (%s); it frees itself within %" PRId64 " s",
			answer->result == LOCK_FAILED ? answer->failure.text : "no answer",
			(k->task->terms.ttl + NANOS_PER_SEC - 1) / NANOS_PER_SEC);
	}
}

/* Gives the lock back and ends. The answer is static: it is large, and there is one. */
static _Noreturn void leave(struct keeper *k)
{
	static struct lock_answer answer;
	nanos limit = clock_now() + RELEASE_LIMIT;
	bool ours = true;

	if (!k->lingering)
		k->lease->held = clock_now() - k->granted_at;
	k->lease->release_until = limit;
	set_phase(k, LEASE_RELEASING);
	if (k->renewal)
		ours = renewal_finish(k->renewal, 0, limit, &answer);
	else
		lock_release(k->lock, 0, (struct patience){limit, -1}, &answer);
	note_release(k, &answer);

	k->lease->stop = k->stop;
	set_phase(k, LEASE_ENDED);
	if (ours && answer.handed_count > 0) {
		ring(k->task->news_fd); /* the front may leave; this is no longer its business */
		handover_verify(k->lock, &answer, VERIFY_LIMIT);
	}
	_exit(0);
}

/* Takes back whatever the request has brought: the lock, or a place in the queue. */
static void take_back(struct keeper *k)
{
	static struct lock_answer answer;

	lock_release(k->lock, 0, (struct patience){clock_now() + RELEASE_LIMIT, -1}, &answer);
	handover_verify(k->lock, &answer, VERIFY_LIMIT);
}

static _Noreturn void end_denied(struct keeper *k)
{
	lease_decide(k->lease, LEASE_DENIED);
	_exit(0);
}

/* Reads the answer; ends here unless the lock is ours and there is still time to use it. */
static void obtain(struct keeper *k)
{
	struct lock_answer *answer = &k->lease->answer;
	nanos valid_until;

	lock_answer(k->lock, (struct patience){k->task->answer_until, -1}, answer);
	if (front_is_gone(k)) {
		take_back(k);
		end_denied(k);
	}
	if (answer->result != LOCK_GRANTED && answer->result != LOCK_WITHIN)
		end_denied(k);

	k->granted_at = clock_now();
	if (answer->result == LOCK_WITHIN) {
		/* The dlock around us renews it, and stops us with the rest of its tree. Half,
		 * because moments are counted from it. */
		valid_until = k->renewal_due = NANOS_NEVER / 2;
	} else {
		valid_until = lease_valid_until(&k->task->terms, answer->asked_at);
		k->renewal_due = answer->asked_at + lease_renew_every(&k->task->terms);
	}
	atomic_store(&k->lease->valid_until, valid_until);
	if (k->granted_at >= lease_stop_at(&k->task->terms, valid_until)) {
		take_back(k); /* granted so late that it is as good as expired */
		answer->result = LOCK_TIMEOUT;
		end_denied(k);
	}
	if (!lease_decide(k->lease, LEASE_HELD))
		pause(); /* cancelled: the front kills us and gives the lock back itself */
}

static void export(const struct keeper *k)
{
	const struct lock_answer *answer = &k->lease->answer;
	const char *token = lock_token(k->lock);
	const char *fences = lock_fences(k->lock);
	uint64_t number = answer->fence;
	char fence[24];

	if (answer->result == LOCK_WITHIN) {
		token = answer->holder_token;
		number = ancestry_fence(k->task->name, token, number);
	}
	snprintf(fence, sizeof(fence), "%" PRIu64, number);
	setenv("DLOCK_NAME", k->task->name, 1);
	setenv("DLOCK_TOKEN", token, 1);
	setenv("DLOCK_FENCE", fence, 1);
	if (fences)
		setenv("DLOCK_FENCES", fences, 1);
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
