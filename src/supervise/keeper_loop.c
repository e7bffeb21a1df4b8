#include "supervise/keeper_loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/message.h"
#include "base/newer_libc.h"
#include "base/number.h"
#include "base/wakeup.h"
#include "process/caller_state.h"
#include "process/process.h"
#include "supervise/task.h"
#include "supervise/renewal.h"
#include "supervise/survivors.h"

#define BY_HAND_LIMIT (500 * NANOS_PER_MS) /* one renewal without a thread */
#define LOOK_EVERY    (20 * NANOS_PER_MS)
#define FIRST_PROCESS 1 /* of a PID namespace */

static const struct ward_ops *ward(const struct keeper_loop *loop)
{
	return loop->task->ward.ops;
}

static void set_phase(struct keeper_loop *loop, enum lease_phase phase)
{
	atomic_store(&loop->lease->phase, phase);
}

bool keeper_loop_open(struct keeper_loop *loop, const struct task *task, pid_t front)
{
	sigset_t handled = task->caller_state->forwarded;

	*loop = (struct keeper_loop){
		.task = task,
		.lock = task->lock,
		.lease = task->lease,
		.front = front,
		.ward_fd = -1,
		.release_fd = -1,
		.guests = {.listener = -1, .events = -1},
	};
	sigaddset(&handled, SIGCHLD);
	loop->signal_fd = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
	loop->lost_fd = wakeup_open();
	loop->timer = clock_timer_open();
	loop->front_fd = pidfd_open(loop->front, 0);
	/* keeper_loop_front_is_gone finds a front that has died. */
	if (loop->front_fd < 0 && errno != ESRCH)
		return false;
	return loop->signal_fd >= 0 && loop->lost_fd >= 0 && loop->timer >= 0 &&
	       tree_open(&loop->tree) && tree_prepare();
}

bool keeper_loop_front_is_gone(const struct keeper_loop *loop)
{
	/* The second look: it may have died before pidfd_open, and its pid may be another's by now.
	 */
	return loop->front_fd < 0 || process_has_ended(loop->front_fd) || getppid() != loop->front;
}

void keeper_loop_notify(const struct keeper_loop *loop)
{
	if (loop->task->notifies)
		wakeup_send(loop->task->wakeup_fd);
}

/* ---- stopping ---- */

/* A tree that is being stopped already goes on as it does; only the reason is another. A caller
 * that has released the lock goes on. */
static void stop_tree(struct keeper_loop *loop, enum lease_stop why)
{
	loop->stop = loop->lease->stop = why;
	if (loop->stopping.begun || loop->given_back)
		return;
	set_phase(loop, LEASE_STOPPING);
	keeper_loop_notify(loop);
	stopping_begin(
		&loop->stopping, &loop->tree, loop->task->stop_signal, loop->lease->terms.grace);
}

/* The message comes last: nothing that it may wait for is to keep COMMAND running. */
void keeper_loop_stop(struct keeper_loop *loop, enum lease_stop why, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (ward(loop)->before_stop)
		ward(loop)->before_stop(loop);
	stop_tree(loop, why);
	message_say(MESSAGE_ERROR, "%s", text);
	if (ward(loop)->after_stop)
		ward(loop)->after_stop(loop);
}

/* The server may grant the lock to another soon after this moment. If COMMAND was to go on all the
 * same, that is no reason to hurry. */
static nanos kill_limit(const struct keeper_loop *loop)
{
	if (loop->warned && loop->task->warn_when_lost)
		return NANOS_NEVER;
	return lease_kill_at(lease_validity(loop->lease));
}

static void go_on_stopping(struct keeper_loop *loop)
{
	nanos limit = kill_limit(loop);

	/* Said before it is done: a first round through a large tree takes its time, and the front
	 * is not to take us for stopped. */
	if (clock_now() >= stopping_due(&loop->stopping, limit) &&
		atomic_load(&loop->lease->phase) == LEASE_STOPPING)
		set_phase(loop, LEASE_KILLING);
	stopping_step(&loop->stopping, &loop->tree, limit);
	atomic_fetch_add(&loop->lease->rounds, 1);
}

/* The process on record as the owner has ended, or is about to. This one holds the lock from now
 * on, and people are to be told so. */
static void pass_on(struct keeper_loop *loop)
{
	if (!loop->lock)
		return;
	if (loop->renewal && loop->renewal_due == NANOS_NEVER) {
		renewal_pass_on(loop->renewal);
	} else {
		owner_pass_on(&loop->lease->owner);
		loop->renewal_due = 0;
	}
}

/* Whether something is there that the lock is kept for, guests aside. */
static bool has_left_tree(const struct keeper_loop *loop)
{
	bool ended = loop->tree.over && loop->task->close_early && loop->stop == STOP_NONE;

	return !loop->tree.empty && !ended;
}

/* ---- guests ---- */

static void attend_guests(struct keeper_loop *loop)
{
	if (loop->lock)
		guests_attend(&loop->guests, loop->task, loop->given_back);
}

static void say_guests(const struct keeper_loop *loop)
{
	char pids[256];

	message_say(MESSAGE_WARNING,
		"the lock stays with the dlocks that hold it inside this one: %s",
		guests_name(&loop->guests, pids, sizeof(pids)));
}

/* Once the lock is lost they have to be gone before it may be another's. */
static bool guests_keep(const struct keeper_loop *loop)
{
	return loop->guests.joined > 0 && clock_now() < lease_validity(loop->lease);
}

/* The caller has released the lock, and its guests keep it: it may go on without waiting for them.
 */
static void stay_for_guests(struct keeper_loop *loop)
{
	const struct lock_answer released = {.result = LOCK_RELEASED};

	loop->tree.over = loop->tree.empty = true;
	say_guests(loop);
	ward(loop)->releasing(loop);
	ward(loop)->released(loop, &released);
}

/* ---- lingering: COMMAND has ended, or is done for; what is left of its tree keeps the lock, or
 * its guests do ---- */

static void linger(struct keeper_loop *loop)
{
	loop->lingering = true;
	loop->lease->stop = loop->stop;
	loop->lease->held = clock_now() - loop->lease->granted_at;
	if (has_left_tree(loop))
		survivors_say(loop->lease, &loop->tree, MESSAGE_WARNING,
			"the lock stays with what COMMAND left running:");
	else
		say_guests(loop);
	caller_state_close(loop->task->caller_state);
	close(loop->front_fd);
	loop->front_fd = -1;
	pass_on(loop);
	set_phase(loop, LEASE_LINGERING);
	wakeup_send(loop->task->wakeup_fd);
}

/* With the first process of a PID namespace all of it ends, the keeper too (zap_pid_ns_processes()
 * in kernel/pid_namespace.c): the lock would stay behind. So what COMMAND left is stopped first. */
static void stop_for_first(struct keeper_loop *loop)
{
	atomic_store(&loop->lease->told, true);
	survivors_say(loop->lease, &loop->tree, MESSAGE_WARNING,
		"dlock is the first process here, and all others end with it; stopping what "
		"COMMAND left running:");
	loop->lease->survivors[0] = 0; /* these processes are not to survive */
	stop_tree(loop, STOP_FIRST_ENDS);
}

/* Whether what COMMAND left will end by itself in time: the keeper of a `dlock hold` in COMMAND
 * ends a little after it, and so does what looks after a handover for a dlock in it. Such a keeper
 * is not worth a message, and when we return its lock is to be free, too. It does not free ours
 * sooner: a list may lack a process that is just being forked, and only waitpid(2) says that there
 * is none. */
static bool own_leave(struct keeper_loop *loop)
{
	nanos time = survivors_leave_within(&loop->tree);

	if (loop->linger_at == 0)
		loop->linger_at = clock_now() + time;
	return time > 0 && clock_now() < loop->linger_at;
}

/* ---- the loop ---- */

static bool is_over(const struct keeper_loop *loop)
{
	if (loop->given_up)
		return true;
	if (guests_keep(loop))
		return false;
	return loop->given_back || !has_left_tree(loop);
}

void keeper_loop_look(struct keeper_loop *loop)
{
	bool was_stopped = loop->tree.stopped;

	tree_reap(&loop->tree);
	if (loop->guests.joined > 0) /* a guest at COMMAND or below it left before COMMAND ended */
		attend_guests(loop);
	if (loop->tree.over && !atomic_load(&loop->lease->command_over)) {
		loop->lease->command_status = loop->tree.status;
		atomic_store(&loop->lease->command_over, true);
		if (loop->lingering &&
			!is_over(loop)) /* the caller of hold was the owner; guests stay */
			pass_on(loop);
	}
	if (loop->tree.stopped != was_stopped) {
		atomic_store(&loop->lease->command_stopped, loop->tree.stopped);
		if (loop->tree.stopped)
			wakeup_send(loop->task->wakeup_fd);
	}
	if (!loop->tree.over || is_over(loop) || loop->stop != STOP_NONE || loop->lingering)
		return;
	if (has_left_tree(loop) && own_leave(loop))
		return;
	if (loop->front != FIRST_PROCESS)
		linger(loop);
	else if (has_left_tree(loop))
		stop_for_first(loop);
}

static void handle_signals(struct keeper_loop *loop)
{
	struct signalfd_siginfo info;
	bool child = false;

	while (read(loop->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo == SIGCHLD)
			child = true;
		else
			ward(loop)->forward(loop, &info);
	if (!child)
		return;
	keeper_loop_look(loop);
	go_on_stopping(loop);
}

/* Whether a loss of the lock would be news. It outranks that --max-run was up. */
static bool may_be_lost(const struct keeper_loop *loop)
{
	return !loop->warned && (loop->stop == STOP_NONE || (loop->stop == STOP_MAX_RUN &&
								    !loop->task->warn_when_lost));
}

static void lose(struct keeper_loop *loop, enum lease_stop why, const char *what, const char *how)
{
	loop->warned = true;
	guests_dismiss(&loop->guests);
	if (!loop->task->warn_when_lost) {
		keeper_loop_stop(loop, why, "%s%s; stopping %s", what, how, ward(loop)->name);
		return;
	}
	atomic_store(&loop->lease->doubted, true);
	keeper_loop_notify(loop);
	message_say(MESSAGE_WARNING, "%s; %s goes on (--on-lost warn)", what, ward(loop)->name);
}

static void handle_loss(struct keeper_loop *loop)
{
	if (may_be_lost(loop) && atomic_load(&loop->lease->lost))
		lose(loop, STOP_LOST, "the lock was lost",
			": somebody else took it, or it was ended");
	if (may_be_lost(loop) && loop->host_gone)
		lose(loop, STOP_UNPROVED,
			"the dlock around this one has lost the lock, or was killed", "");
}

static void handle_front(struct keeper_loop *loop)
{
	if (loop->front_fd < 0 || loop->stop != STOP_NONE || !keeper_loop_front_is_gone(loop))
		return;
	close(loop->front_fd);
	loop->front_fd = -1;
	if (loop->lease->owner.pid == loop->front) /* else the caller of hold is */
		pass_on(loop);
	ward(loop)->front_gone(loop);
}

static void handle_ward(struct keeper_loop *loop)
{
	if (loop->stop == STOP_NONE && !loop->given_back && ward(loop)->release_asked &&
		ward(loop)->release_asked(loop)) {
		loop->given_back = true;
		if (loop->guests.joined > 0) /* a guest at the caller left before it asked */
			attend_guests(loop);
		if (guests_keep(loop))
			stay_for_guests(loop);
	}
	if (tree_is_ours(&loop->tree) && !loop->ward_news) /* handle_signals has looked after it */
		return;
	keeper_loop_look(loop);
	go_on_stopping(loop);
}

/* Its thread renews from now on. If none is to be had (COMMAND may have used up what its user may
 * run) the main thread does it, for a moment at a time; and not any more once that could keep it
 * from stopping COMMAND in time. */
static void see_to_renewal(struct keeper_loop *loop, nanos now)
{
	nanos stop_at = lease_stop_at(&loop->lease->terms, lease_validity(loop->lease));
	nanos until = now + BY_HAND_LIMIT;

	loop->renewal_due = NANOS_NEVER;
	if (!loop->renewal)
		loop->renewal = renewal_open(loop->lock, loop->lease, loop->lost_fd);
	if (renewal_start(loop->renewal))
		return;
	if (!loop->task->warn_when_lost && until > stop_at)
		until = stop_at;
	if (now < until)
		loop->renewal_due = renewal_try(loop->renewal, until);
}

static void handle_validity(struct keeper_loop *loop, nanos now)
{
	if (may_be_lost(loop) &&
		now >= lease_stop_at(&loop->lease->terms, lease_validity(loop->lease)))
		lose(loop, STOP_UNPROVED, "the lock cannot be proved any longer", "");
}

static nanos overrun_at(const struct keeper_loop *loop)
{
	return lease_overrun_at(&loop->lease->terms, loop->lease->granted_at);
}

static void handle_overrun(struct keeper_loop *loop, nanos now)
{
	char span[DURATION_TEXT];

	if (loop->stop != STOP_NONE || is_over(loop) || now < overrun_at(loop))
		return;
	keeper_loop_stop(loop, STOP_MAX_RUN, "ran for more than %s; stopping COMMAND",
		duration_format_given(loop->lease->terms.max_run, span));
}

/* SIGKILL was of no use: something lives on that we may not signal (set-uid), or that hangs in the
 * kernel. As long as the lock can be proved, it is waited for, and the lock stays. */
static void handle_hopelessness(struct keeper_loop *loop, nanos now)
{
	bool proved = now < lease_validity(loop->lease);

	if (!stopping_is_hopeless(&loop->stopping, &loop->tree))
		return;
	if (!proved || (loop->stop != STOP_FRONT_GONE && loop->stop != STOP_MAX_RUN)) {
		loop->given_up = true;
		survivors_say(loop->lease, &loop->tree, MESSAGE_ERROR, "could not stop");
	} else if (loop->stop == STOP_MAX_RUN && !loop->lingering) {
		linger(loop);
	}
}

static void handle_time(struct keeper_loop *loop)
{
	nanos now = clock_now();

	if (now >= loop->renewal_due)
		see_to_renewal(loop, now);
	if (loop->linger_at != 0 && !loop->lingering && now >= loop->linger_at)
		keeper_loop_look(loop);
	handle_validity(loop, now);
	handle_overrun(loop, now);
	go_on_stopping(loop);
	handle_hopelessness(loop, now);
}

/* The next moment at which handle_time has something to do. */
static nanos next_due(const struct keeper_loop *loop)
{
	nanos due = loop->renewal_due;

	if (may_be_lost(loop))
		due = number_least(
			due, lease_stop_at(&loop->lease->terms, lease_validity(loop->lease)));
	if (loop->linger_at != 0 && !loop->lingering && loop->stop == STOP_NONE)
		due = number_least(due, loop->linger_at);
	if (loop->stop == STOP_NONE)
		return number_least(due, overrun_at(loop));
	if (loop->guests.joined > 0)
		due = number_least(due, lease_validity(loop->lease));
	if (!tree_is_ours(&loop->tree)) /* no SIGCHLD tells of their end */
		due = number_least(due, clock_now() + LOOK_EVERY);
	return number_least(due, stopping_due(&loop->stopping, kill_limit(loop)));
}

static void wait_for_news(struct keeper_loop *loop)
{
	enum { CONNECTION = 4, HOST = 5, GUESTS = 6, WARD = 8 };
	struct pollfd fds[] = {
		{.fd = loop->signal_fd, .events = POLLIN},
		{.fd = loop->timer, .events = POLLIN},
		{.fd = loop->lost_fd, .events = POLLIN},
		{.fd = loop->stop == STOP_NONE ? loop->front_fd : -1, .events = POLLIN},
		/* Then its thread does. */
		{.fd = !loop->lock || (loop->renewal && loop->renewal_due == NANOS_NEVER)
				? -1
				: lock_watch_fd(loop->lock),
			.events = POLLIN},
		{.fd = loop->lease->hosts[0] && may_be_lost(loop) ? loop->task->guest->ended_fd
								  : -1,
			.events = POLLIN},
		{.fd = loop->guests.listener, .events = POLLIN},
		{.fd = loop->guests.events, .events = POLLIN},
		/* SIGCHLD tells all there is to know of COMMAND; but if a debugger traces it, only
		 * once that has reaped it. Its pidfd tells of its end in any case. */
		{.fd = loop->tree.over ? -1 : loop->ward_fd, .events = POLLIN},
		{.fd = loop->stop == STOP_NONE ? loop->release_fd : -1, .events = POLLIN},
	};

	(void)poll(fds, sizeof(fds) / sizeof(fds[0]), clock_timer_set(loop->timer, next_due(loop)));
	clock_timer_clear(loop->timer);
	wakeup_clear(loop->lost_fd);
	loop->ward_news = fds[WARD].revents != 0;
	if (loop->ward_news)
		loop->ward_fd = -1; /* the descriptor stays readable */
	loop->host_gone = loop->host_gone || fds[HOST].revents != 0;
	if (fds[GUESTS].revents || fds[GUESTS + 1].revents)
		attend_guests(loop);
	if (fds[CONNECTION].revents)
		loop->renewal_due = 0; /* a lost connection, or an ended lock: renew at once */
}

void keeper_loop_run(struct keeper_loop *loop)
{
	while (!is_over(loop)) {
		wait_for_news(loop);
		handle_signals(loop);
		handle_ward(loop);
		handle_loss(loop);
		handle_front(loop);
		handle_time(loop);
	}
}
