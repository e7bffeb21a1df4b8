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

static const struct ward_ops *ward(const struct keeper_loop *s)
{
	return s->task->run->ward.ops;
}

static void set_phase(struct keeper_loop *s, enum lease_phase phase)
{
	atomic_store(&s->lease->phase, phase);
}

bool keeper_loop_open(struct keeper_loop *s, const struct keeper_task *task, pid_t front)
{
	sigset_t handled = task->run->caller_state->forwarded;

	*s = (struct keeper_loop){
		.task = task,
		.lock = task->run->lock,
		.lease = task->lease,
		.front = front,
		.command_fd = -1,
		.guests = {.listener = -1, .events = -1},
	};
	sigaddset(&handled, SIGCHLD);
	s->signal_fd = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
	s->lost_fd = wakeup_open();
	s->timer = clock_timer_open();
	s->front_fd = pidfd_open(s->front, 0);
	/* keeper_loop_front_is_gone finds a front that has died. */
	if (s->front_fd < 0 && errno != ESRCH)
		return false;
	return s->signal_fd >= 0 && s->lost_fd >= 0 && s->timer >= 0 && tree_open(&s->tree) &&
	       tree_prepare();
}

/* A background process group that writes to a terminal with `stty tostop` would be stopped; so
 * would we by a Ctrl-Z while we are in COMMAND's group (leave_session). */
void keeper_loop_shield(void)
{
	sigset_t quiet;

	sigemptyset(&quiet);
	sigaddset(&quiet, SIGTTOU);
	sigaddset(&quiet, SIGTSTP);
	sigprocmask(SIG_BLOCK, &quiet, NULL);
}

bool keeper_loop_front_is_gone(const struct keeper_loop *s)
{
	/* The second look: it may have died before pidfd_open, and its pid may be another's by now.
	 */
	return s->front_fd < 0 || process_has_ended(s->front_fd) || getppid() != s->front;
}

bool keeper_loop_holds(const struct keeper_loop *s, const char *name)
{
	const struct front_task *run = s->task->run;
	bool named = strcmp(name, run->name) == 0;

	for (size_t i = 0; i < run->also_count && !named; i++)
		named = strcmp(name, run->also[i]) == 0;
	return named && !guest_find(run->guest, name);
}

uint64_t keeper_loop_fence(const struct keeper_loop *s, const char *name)
{
	const struct guest_lock *around = guest_find(s->task->run->guest, name);
	uint64_t fence = around ? around->fence : s->lock ? lock_fence(s->lock, name) : 0;

	return fence != 0 ? fence : s->lease->answer.fence;
}

const char *keeper_loop_token(const struct keeper_loop *s)
{
	return s->lock ? lock_token(s->lock) : s->task->run->guest->locks[0].token;
}

/* ---- stopping ---- */

/* The front has something to tell the service manager. */
static void notify(const struct keeper_loop *s)
{
	if (s->task->notifies)
		wakeup_send(s->task->wakeup_fd);
}

/* A tree that is being stopped already goes on as it does; only the reason is another. A caller
 * that has released the lock goes on. */
static void stop_tree(struct keeper_loop *s, enum lease_stop why)
{
	s->stop = s->lease->stop = why;
	if (s->stopping.begun || s->given_back)
		return;
	set_phase(s, LEASE_STOPPING);
	notify(s);
	stopping_begin(&s->stopping, &s->tree, s->task->run->stop_signal, s->lease->terms.grace);
}

/* The message comes last: nothing that it may wait for is to keep COMMAND running. */
void keeper_loop_stop(struct keeper_loop *s, enum lease_stop why, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (ward(s)->before_stop)
		ward(s)->before_stop(s);
	stop_tree(s, why);
	message_say(MESSAGE_ERROR, "%s", text);
	if (ward(s)->after_stop)
		ward(s)->after_stop(s);
}

/* The server may grant the lock to another soon after this moment. If COMMAND was to go on all the
 * same, that is no reason to hurry. */
static nanos kill_limit(const struct keeper_loop *s)
{
	if (s->warned && s->task->run->warn_when_lost)
		return NANOS_NEVER;
	return lease_kill_at(lease_validity(s->lease));
}

static void go_on_stopping(struct keeper_loop *s)
{
	nanos limit = kill_limit(s);

	/* Said before it is done: a first round through a large tree takes its time, and the front
	 * is not to take us for stopped. */
	if (clock_now() >= stopping_due(&s->stopping, limit) &&
		atomic_load(&s->lease->phase) == LEASE_STOPPING)
		set_phase(s, LEASE_KILLING);
	stopping_step(&s->stopping, &s->tree, limit);
	atomic_fetch_add(&s->lease->rounds, 1);
}

/* The lock is lost, and something lives on that we may not signal (set-uid), or that hangs in the
 * kernel. */
static void give_up(struct keeper_loop *s)
{
	s->given_up = true;
	survivors_say(s->lease, &s->tree, MESSAGE_ERROR, "could not stop");
}

/* The process on record as the owner has ended, or is about to. This one holds the lock from now
 * on, and people are to be told so. */
static void pass_on(struct keeper_loop *s)
{
	if (!s->lock)
		return;
	if (s->renewal && s->renewal_due == NANOS_NEVER) {
		renewal_pass_on(s->renewal);
	} else {
		owner_pass_on(&s->lease->owner);
		s->renewal_due = 0;
	}
}

/* Whether something is there that the lock is kept for, guests aside. */
static bool has_left_tree(const struct keeper_loop *s)
{
	bool ended = s->tree.over && s->task->run->close_early && s->stop == STOP_NONE;

	return !s->tree.empty && !ended;
}

/* ---- guests ---- */

static uint64_t held_fence(const void *context, const char *name)
{
	const struct keeper_loop *s = context;

	return keeper_loop_holds(s, name) ? keeper_loop_fence(s, name) : 0;
}

static void attend_guests(struct keeper_loop *s)
{
	const struct front_task *run = s->task->run;

	if (!s->lock)
		return;
	guests_attend(&s->guests, &(struct guest_host){.request = run->request,
					  .place = run->place,
					  .token = lock_token(s->lock),
					  .lease = s->lease,
					  .released = s->given_back,
					  .fence = held_fence,
					  .context = s});
}

static void say_guests(const struct keeper_loop *s)
{
	char pids[256];

	message_say(MESSAGE_WARNING,
		"the lock stays with the dlocks that hold it inside this one: %s",
		guests_name(&s->guests, pids, sizeof(pids)));
}

/* Once the lock is lost they have to be gone before it may be another's. */
static bool guests_keep(const struct keeper_loop *s)
{
	return s->guests.joined > 0 && clock_now() < lease_validity(s->lease);
}

/* The caller has released the lock, and its guests keep it: it may go on without waiting for them.
 */
static void stay_for_guests(struct keeper_loop *s)
{
	const struct lock_answer released = {.result = LOCK_RELEASED};

	s->tree.over = s->tree.empty = true;
	say_guests(s);
	ward(s)->releasing(s);
	ward(s)->released(s, &released);
}

/* ---- lingering: COMMAND has ended, or is done for; what is left of its tree keeps the lock, or
 * its guests do ---- */

static void linger(struct keeper_loop *s)
{
	s->lingering = true;
	s->lease->stop = s->stop;
	s->lease->held = clock_now() - s->lease->granted_at;
	if (has_left_tree(s))
		survivors_say(s->lease, &s->tree, MESSAGE_WARNING,
			"the lock stays with what COMMAND left running:");
	else
		say_guests(s);
	caller_state_close(s->task->run->caller_state);
	close(s->front_fd);
	s->front_fd = -1;
	pass_on(s);
	set_phase(s, LEASE_LINGERING);
	wakeup_send(s->task->wakeup_fd);
}

/* With the first process of a PID namespace all of it ends, the keeper too (zap_pid_ns_processes()
 * in kernel/pid_namespace.c): the lock would stay behind. So what COMMAND left is stopped first. */
static void stop_for_first(struct keeper_loop *s)
{
	atomic_store(&s->lease->told, true);
	survivors_say(s->lease, &s->tree, MESSAGE_WARNING,
		"dlock is the first process here, and all others end with it; stopping what "
		"COMMAND left running:");
	s->lease->survivors[0] = 0; /* these processes are not to survive */
	stop_tree(s, STOP_FIRST_ENDS);
}

/* Whether what COMMAND left will end by itself in time: the keeper of a `dlock hold` in COMMAND
 * ends a little after it, and so does what looks after a handover for a dlock in it. Such a keeper
 * is not worth a message, and when we return its lock is to be free, too. It does not free ours
 * sooner: a list may lack a process that is just being forked, and only waitpid(2) says that there
 * is none. */
static bool own_leave(struct keeper_loop *s)
{
	nanos time = survivors_leave_within(&s->tree);

	if (s->linger_at == 0)
		s->linger_at = clock_now() + time;
	return time > 0 && clock_now() < s->linger_at;
}

/* ---- the loop ---- */

static bool is_over(const struct keeper_loop *s)
{
	if (s->given_up)
		return true;
	if (guests_keep(s))
		return false;
	return s->given_back || !has_left_tree(s);
}

void keeper_loop_look(struct keeper_loop *s)
{
	bool was_stopped = s->tree.stopped;

	tree_reap(&s->tree);
	if (s->tree.over && !atomic_load(&s->lease->command_over)) {
		s->lease->command_status = s->tree.status;
		atomic_store(&s->lease->command_over, true);
		if (s->lingering && !is_over(s)) /* the caller of hold was the owner; guests stay */
			pass_on(s);
	}
	if (s->tree.stopped != was_stopped) {
		atomic_store(&s->lease->command_stopped, s->tree.stopped);
		if (s->tree.stopped)
			wakeup_send(s->task->wakeup_fd);
	}
	if (!s->tree.over || is_over(s) || s->stop != STOP_NONE || s->lingering)
		return;
	if (has_left_tree(s) && own_leave(s))
		return;
	if (s->front != FIRST_PROCESS)
		linger(s);
	else if (has_left_tree(s))
		stop_for_first(s);
}

static void handle_signals(struct keeper_loop *s)
{
	struct signalfd_siginfo info;
	bool child = false;

	while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo == SIGCHLD)
			child = true;
		else
			ward(s)->forward(s, &info);
	if (!child)
		return;
	keeper_loop_look(s);
	go_on_stopping(s);
}

/* Whether a loss of the lock would be news. It outranks that --max-run was up. */
static bool may_be_lost(const struct keeper_loop *s)
{
	return !s->warned &&
	       (s->stop == STOP_NONE || (s->stop == STOP_MAX_RUN && !s->task->run->warn_when_lost));
}

static void lose(struct keeper_loop *s, enum lease_stop why, const char *what, const char *how)
{
	s->warned = true;
	guests_dismiss(&s->guests);
	if (!s->task->run->warn_when_lost) {
		keeper_loop_stop(s, why, "%s%s; stopping %s", what, how, ward(s)->name);
		return;
	}
	atomic_store(&s->lease->doubted, true);
	notify(s);
	message_say(MESSAGE_WARNING, "%s; %s goes on (--on-lost warn)", what, ward(s)->name);
}

static void handle_loss(struct keeper_loop *s)
{
	if (may_be_lost(s) && atomic_load(&s->lease->lost))
		lose(s, STOP_LOST, "the lock was lost", ": somebody else took it, or it was ended");
	if (may_be_lost(s) && s->host_gone)
		lose(s, STOP_UNPROVED, "the dlock around this one has lost the lock, or was killed",
			"");
}

static void handle_front(struct keeper_loop *s)
{
	if (s->front_fd < 0 || s->stop != STOP_NONE || !keeper_loop_front_is_gone(s))
		return;
	close(s->front_fd);
	s->front_fd = -1;
	if (s->lease->owner.pid == s->front) /* else the caller of hold is */
		pass_on(s);
	ward(s)->front_gone(s);
}

static void handle_ward(struct keeper_loop *s)
{
	if (s->stop == STOP_NONE && !s->given_back && ward(s)->release_asked &&
		ward(s)->release_asked(s)) {
		s->given_back = true;
		if (guests_keep(s))
			stay_for_guests(s);
	}
	if (tree_is_ours(&s->tree) && !s->ward_news) /* handle_signals has looked after it */
		return;
	keeper_loop_look(s);
	go_on_stopping(s);
}

/* Its thread renews from now on. If none is to be had (COMMAND may have used up what its user may
 * run) the main thread does it, for a moment at a time; and not any more once that could keep it
 * from stopping COMMAND in time. */
static void see_to_renewal(struct keeper_loop *s, nanos now)
{
	nanos stop_at = lease_stop_at(&s->lease->terms, lease_validity(s->lease));
	nanos until = now + BY_HAND_LIMIT;

	s->renewal_due = NANOS_NEVER;
	if (!s->renewal)
		s->renewal = renewal_open(s->lock, s->lease, s->lost_fd);
	if (renewal_start(s->renewal))
		return;
	if (!s->task->run->warn_when_lost && until > stop_at)
		until = stop_at;
	if (now < until)
		s->renewal_due = renewal_try(s->renewal, until);
}

static void handle_validity(struct keeper_loop *s, nanos now)
{
	if (may_be_lost(s) && now >= lease_stop_at(&s->lease->terms, lease_validity(s->lease)))
		lose(s, STOP_UNPROVED, "the lock cannot be proved any longer", "");
}

static nanos overrun_at(const struct keeper_loop *s)
{
	return lease_overrun_at(&s->lease->terms, s->lease->granted_at);
}

static void handle_overrun(struct keeper_loop *s, nanos now)
{
	char span[DURATION_TEXT];

	if (s->stop != STOP_NONE || is_over(s) || now < overrun_at(s))
		return;
	keeper_loop_stop(s, STOP_MAX_RUN, "ran for more than %s; stopping COMMAND",
		duration_format_given(s->lease->terms.max_run, span));
}

/* SIGKILL was of no use. As long as the lock can be proved, what lives is waited for, and the lock
 * stays. */
static void handle_hopelessness(struct keeper_loop *s, nanos now)
{
	bool proved = now < lease_validity(s->lease);

	if (!stopping_is_hopeless(&s->stopping, &s->tree))
		return;
	if (!proved || (s->stop != STOP_FRONT_GONE && s->stop != STOP_MAX_RUN))
		give_up(s);
	else if (s->stop == STOP_MAX_RUN && !s->lingering)
		linger(s);
}

static void handle_time(struct keeper_loop *s)
{
	nanos now = clock_now();

	if (now >= s->renewal_due)
		see_to_renewal(s, now);
	if (s->linger_at != 0 && !s->lingering && now >= s->linger_at)
		keeper_loop_look(s);
	handle_validity(s, now);
	handle_overrun(s, now);
	go_on_stopping(s);
	handle_hopelessness(s, now);
}

/* The next moment at which handle_time has something to do. */
static nanos next_due(const struct keeper_loop *s)
{
	nanos due = s->renewal_due;

	if (may_be_lost(s))
		due = number_least(due, lease_stop_at(&s->lease->terms, lease_validity(s->lease)));
	if (s->linger_at != 0 && !s->lingering && s->stop == STOP_NONE)
		due = number_least(due, s->linger_at);
	if (s->stop == STOP_NONE)
		return number_least(due, overrun_at(s));
	if (s->guests.joined > 0)
		due = number_least(due, lease_validity(s->lease));
	if (!tree_is_ours(&s->tree)) /* no SIGCHLD tells of their end */
		due = number_least(due, clock_now() + LOOK_EVERY);
	return number_least(due, stopping_due(&s->stopping, kill_limit(s)));
}

static void wait_for_news(struct keeper_loop *s)
{
	enum { CONNECTION = 4, HOST = 5, GUESTS = 6, OF_WARD = 8 };
	struct pollfd fds[OF_WARD + WARD_FDS] = {
		{.fd = s->signal_fd, .events = POLLIN},
		{.fd = s->timer, .events = POLLIN},
		{.fd = s->lost_fd, .events = POLLIN},
		{.fd = s->stop == STOP_NONE ? s->front_fd : -1, .events = POLLIN},
		/* Then its thread does. */
		{.fd = !s->lock || (s->renewal && s->renewal_due == NANOS_NEVER)
				? -1
				: lock_watch_fd(s->lock),
			.events = POLLIN},
		{.fd = s->lease->hosts[0] && may_be_lost(s) ? s->task->run->guest->ended_fd : -1,
			.events = POLLIN},
		{.fd = s->guests.listener, .events = POLLIN},
		{.fd = s->guests.events, .events = POLLIN},
	};

	for (int i = 0; i < WARD_FDS; i++)
		fds[OF_WARD + i].fd = -1;
	if (ward(s)->watch)
		ward(s)->watch(s, &fds[OF_WARD]);
	(void)poll(fds, sizeof(fds) / sizeof(fds[0]), clock_timer_set(s->timer, next_due(s)));
	clock_timer_clear(s->timer);
	wakeup_clear(s->lost_fd);
	s->ward_news = fds[OF_WARD].revents != 0;
	if (s->ward_news && s->command_fd >= 0) { /* the descriptor stays readable */
		close(s->command_fd);
		s->command_fd = -1;
	}
	s->host_gone = s->host_gone || fds[HOST].revents != 0;
	if (fds[GUESTS].revents || fds[GUESTS + 1].revents)
		attend_guests(s);
	if (fds[CONNECTION].revents)
		s->renewal_due = 0; /* a lost connection, or an ended lock: renew at once */
}

void keeper_loop_run(struct keeper_loop *s)
{
	while (!is_over(s)) {
		wait_for_news(s);
		handle_signals(s);
		handle_ward(s);
		handle_loss(s);
		handle_front(s);
		handle_time(s);
	}
}
