#include "supervision.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "duration.h"
#include "caller.h"
#include "inherited.h"
#include "keeper.h"
#include "message.h"
#include "news.h"
#include "renewal.h"
#include "survivors.h"

#define RENEWAL_RETRY NANOS_PER_SEC /* when no thread was to be had */
#define LOOK_EVERY    (20 * NANOS_PER_MS)

static void set_phase(struct supervision *s, enum lease_phase phase)
{
	atomic_store(&s->lease->phase, phase);
}

bool supervision_open(struct supervision *s, const struct keeper_task *task, pid_t front)
{
	sigset_t heeded = task->inherited->forwarded;
	sigset_t quiet;

	*s = (struct supervision){
		.task = task,
		.lock = task->lock,
		.lease = task->lease,
		.front = front,
		.bell = {.fd = -1},
	};
	tree_open(&s->tree);
	sigaddset(&heeded, SIGCHLD);
	s->signal_fd = signalfd(-1, &heeded, SFD_CLOEXEC | SFD_NONBLOCK);
	/* A background process group that writes to a terminal with `stty tostop` would be stopped;
	 * so would we by a Ctrl-Z while we are in COMMAND's group (leave_session). */
	sigemptyset(&quiet);
	sigaddset(&quiet, SIGTTOU);
	sigaddset(&quiet, SIGTSTP);
	sigprocmask(SIG_BLOCK, &quiet, NULL);

	s->lost_fd = news_open();
	s->timer = clock_timer_open();
	s->front_fd = pidfd_open(s->front, 0);
	/* A front that has died is met by supervision_front_is_gone. */
	return s->signal_fd >= 0 && s->lost_fd >= 0 && s->timer >= 0 &&
	       (s->front_fd >= 0 || errno == ESRCH);
}

bool supervision_front_is_gone(const struct supervision *s)
{
	struct pollfd front = {.fd = s->front_fd, .events = POLLIN};

	/* The second look: it may have died before pidfd_open, and its pid may be another's by now.
	 */
	return s->front_fd < 0 || poll(&front, 1, 0) > 0 || getppid() != s->front;
}

/* ---- stopping ---- */

/* A tree that is being stopped already goes on as it does; only the reason is another. */
static void stop(struct supervision *s, enum lease_stop why)
{
	s->stop = why;
	if (s->stopping.begun)
		return;
	set_phase(s, LEASE_STOPPING);
	stopping_begin(&s->stopping, &s->tree, s->task->stop_signal, s->task->terms.grace);
}

/* The server may grant the lock to another soon after this moment; where COMMAND was to go on all
 * the same, that is no reason to hurry. */
static nanos kill_limit(const struct supervision *s)
{
	if (s->warned && s->task->warn_when_lost)
		return NANOS_NEVER;
	return lease_kill_at(atomic_load(&s->lease->valid_until));
}

static void go_on_stopping(struct supervision *s)
{
	nanos limit = kill_limit(s);

	/* Said before it is done: a first round through a large tree takes its time, and the front
	 * is not to take us for stopped. */
	if (clock_now() >= stopping_due(&s->stopping, limit) &&
		atomic_load(&s->lease->phase) == LEASE_STOPPING)
		set_phase(s, LEASE_KILLING);
	stopping_step(&s->stopping, &s->tree, limit);
}

/* The lock is lost and something lives on that we may not signal (set-uid) or that hangs in the
 * kernel. */
static void give_up(struct supervision *s)
{
	s->given_up = true;
	survivors_say(s->lease, &s->tree, MESSAGE_ERROR, "could not stop");
}

/* ---- lingering: COMMAND has ended, or is done for; what is left of its tree keeps the lock ----
 */

static void linger(struct supervision *s)
{
	s->lingering = true;
	s->lease->stop = s->stop;
	s->lease->held = clock_now() - s->lease->granted_at;
	survivors_say(s->lease, &s->tree, MESSAGE_WARNING,
		"the lock stays with what COMMAND left running:");
	inherited_close();
	close(s->front_fd);
	s->front_fd = -1;
	set_phase(s, LEASE_LINGERING);
	news_ring(s->task->news_fd);
}

/* The keeper of a `dlock hold` in COMMAND ends a little after it, and so does what looks after a
 * handover for a dlock in it: that is not worth a word, and when we return its lock is to be free,
 * too. Nor does it free ours sooner: a list may lack who is just being forked, and only waitpid(2)
 * says that there is nobody. */
static bool own_leave(struct supervision *s)
{
	nanos time = survivors_leave_within(&s->tree);

	if (s->linger_at == 0)
		s->linger_at = clock_now() + time;
	return time > 0 && clock_now() < s->linger_at;
}

/* ---- the loop ---- */

static bool is_over(const struct supervision *s)
{
	if (s->tree.empty || s->given_up || s->given_back)
		return true;
	return s->tree.over && s->task->close_early && s->stop == STOP_NONE;
}

static void look_after_tree(struct supervision *s)
{
	bool was_stopped = s->tree.stopped;

	tree_reap(&s->tree);
	if (s->tree.over && !atomic_load(&s->lease->command_over)) {
		s->lease->command_status = s->tree.status;
		atomic_store(&s->lease->command_over, true);
	}
	if (s->tree.stopped != was_stopped) {
		atomic_store(&s->lease->command_stopped, s->tree.stopped);
		if (s->tree.stopped)
			news_ring(s->task->news_fd);
	}
	if (s->tree.over && !is_over(s) && s->stop == STOP_NONE && !s->lingering && !own_leave(s))
		linger(s);
}

/* fg sends SIGCONT to the whole job, so COMMAND has it already where it was stopped and is no
 * longer. */
static void forward(struct supervision *s, int sig)
{
	if (sig == SIGCONT && s->tree.stopped) {
		look_after_tree(s);
		if (!s->tree.stopped)
			return;
	}
	if (s->lingering)
		tree_signal(&s->tree, sig);
	else if (!s->tree.over)
		kill(s->tree.command, sig);
}

/* Whoever ends a keeper of hold wants the lock back, not the caller's end. A stop goes on. */
static void heed_request(struct supervision *s, int sig)
{
	if (sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT)
		s->given_back = s->stop == STOP_NONE;
}

/* What the terminal sends COMMAND has as well; it reaches us only while we leave the session, in
 * COMMAND's group. */
static void heed_signals(struct supervision *s)
{
	struct signalfd_siginfo info;
	bool child = false;

	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo == SIGCHLD)
			child = true;
		else if (s->task->hold)
			heed_request(s, (int)info.ssi_signo);
		else if (!inherited_is_shared(
				 s->task->inherited, (int)info.ssi_signo, info.ssi_code))
			forward(s, (int)info.ssi_signo);
	if (!child)
		return;
	look_after_tree(s);
	go_on_stopping(s);
}

/* Whom the lock is for. */
static const char *whom(const struct supervision *s)
{
	return s->task->hold ? "its caller" : "COMMAND";
}

/* Whether a loss of the lock would be news. It outranks that --max-run was up. */
static bool may_be_lost(const struct supervision *s)
{
	return !s->warned &&
	       (s->stop == STOP_NONE || (s->stop == STOP_MAX_RUN && !s->task->warn_when_lost));
}

static void heed_loss(struct supervision *s)
{
	if (!may_be_lost(s) || !atomic_load(&s->lease->lost))
		return;
	s->warned = true;
	if (s->task->warn_when_lost) {
		message_say(
			MESSAGE_WARNING, "the lock was lost; %s goes on (--on-lost warn)", whom(s));
		return;
	}
	message_say(MESSAGE_ERROR,
		"the lock was lost: somebody else took it, or it was ended; stopping %s", whom(s));
	stop(s, STOP_LOST);
}

/* hold's front ends when the caller is told. If not, he does not know that he has the lock. */
static void heed_messenger(struct supervision *s)
{
	if (s->front_fd < 0 || !supervision_front_is_gone(s))
		return;
	close(s->front_fd);
	s->front_fd = -1;
	if (!atomic_load(&s->lease->told) && s->stop == STOP_NONE)
		s->given_back = true;
}

static void heed_front(struct supervision *s)
{
	if (s->task->hold) {
		heed_messenger(s);
		return;
	}
	if (s->lingering || s->stop != STOP_NONE || !supervision_front_is_gone(s))
		return;
	message_say(MESSAGE_ERROR, "dlock (pid %d) was killed; stopping COMMAND", (int)s->front);
	stop(s, STOP_FRONT_GONE);
}

static void heed_caller(struct supervision *s)
{
	if (!s->tree.other)
		return;
	if (s->stop == STOP_NONE && doorbell_heed(&s->bell))
		s->given_back = true;
	look_after_tree(s);
	go_on_stopping(s);
}

static void start_renewal(struct supervision *s)
{
	s->renewal = renewal_start(s->lock, s->lease, &s->task->terms, s->lost_fd);
	if (s->renewal)
		return;
	message_say(MESSAGE_WARNING, "cannot start the renewal thread: %s", strerror(errno));
	s->renewal_due = clock_now() + RENEWAL_RETRY;
}

static void heed_validity(struct supervision *s, nanos now)
{
	if (!may_be_lost(s) ||
		now < lease_stop_at(&s->task->terms, atomic_load(&s->lease->valid_until)))
		return;
	if (s->task->warn_when_lost) {
		s->warned = true;
		message_say(MESSAGE_WARNING,
			"the lock cannot be proved any longer; %s goes on (--on-lost warn)",
			whom(s));
		return;
	}
	message_say(MESSAGE_ERROR, "the lock cannot be proved any longer; stopping %s", whom(s));
	stop(s, STOP_UNPROVED);
}

static nanos overrun_at(const struct supervision *s)
{
	return lease_overrun_at(&s->task->terms, s->lease->granted_at);
}

static void heed_overrun(struct supervision *s, nanos now)
{
	char span[DURATION_TEXT];

	if (s->stop != STOP_NONE || is_over(s) || now < overrun_at(s))
		return;
	message_say(MESSAGE_ERROR, "ran for more than %s; stopping COMMAND",
		duration_format(s->task->terms.max_run, span));
	stop(s, STOP_MAX_RUN);
}

/* SIGKILL was of no use. As long as the lock can be proved, what lives is waited for, and the lock
 * stays. */
static void heed_hopelessness(struct supervision *s, nanos now)
{
	bool proved = now < atomic_load(&s->lease->valid_until);

	if (!stopping_is_hopeless(&s->stopping, &s->tree))
		return;
	if (!proved || (s->stop != STOP_FRONT_GONE && s->stop != STOP_MAX_RUN))
		give_up(s);
	else if (s->stop == STOP_MAX_RUN && !s->lingering)
		linger(s);
}

static void heed_time(struct supervision *s)
{
	nanos now = clock_now();

	if (!s->renewal && now >= s->renewal_due)
		start_renewal(s);
	if (s->linger_at != 0 && !s->lingering && now >= s->linger_at)
		look_after_tree(s);
	heed_validity(s, now);
	heed_overrun(s, now);
	go_on_stopping(s);
	heed_hopelessness(s, now);
}

static nanos earlier(nanos a, nanos b)
{
	return a < b ? a : b;
}

/* The next moment at which heed_time has something to do. */
static nanos next_due(const struct supervision *s)
{
	nanos due = s->renewal ? NANOS_NEVER : s->renewal_due;

	if (may_be_lost(s))
		due = earlier(
			due, lease_stop_at(&s->task->terms, atomic_load(&s->lease->valid_until)));
	if (s->linger_at != 0 && !s->lingering && s->stop == STOP_NONE)
		due = earlier(due, s->linger_at);
	if (s->stop == STOP_NONE)
		return earlier(due, overrun_at(s));
	if (s->tree.other) /* nobody tells us of the end of a process that is not ours */
		due = earlier(due, clock_now() + LOOK_EVERY);
	return earlier(due, stopping_due(&s->stopping, kill_limit(s)));
}

static void wait_for_news(struct supervision *s)
{
	struct pollfd fds[] = {
		{.fd = s->signal_fd, .events = POLLIN},
		{.fd = s->timer, .events = POLLIN},
		{.fd = s->lost_fd, .events = POLLIN},
		{.fd = s->stop == STOP_NONE ? s->front_fd : -1, .events = POLLIN},
		{.fd = s->renewal ? -1 : lock_watch_fd(s->lock), .events = POLLIN},
		{.fd = s->tree.other && !s->tree.over ? s->other.root->fd : -1, .events = POLLIN},
		{.fd = s->stop == STOP_NONE ? s->bell.fd : -1, .events = POLLIN},
	};
	uint64_t times;

	clock_timer_set(s->timer, next_due(s));
	if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
		return;
	clock_timer_clear(s->timer);
	(void)!read(s->lost_fd, &times, sizeof(times));
	if (fds[4].revents)
		s->renewal_due = 0; /* the connection dropped: renew on another at once */
}

void supervision_run(struct supervision *s)
{
	while (!is_over(s)) {
		wait_for_news(s);
		heed_signals(s);
		heed_caller(s);
		heed_loss(s);
		heed_front(s);
		heed_time(s);
	}
}
