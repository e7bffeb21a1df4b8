#include "front.h"

#include <bsd/stdlib.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handover.h"
#include "inherited.h"
#include "keeper.h"
#include "message.h"
#include "outcome.h"
#include "process_tree.h"
#include "program.h"
#include "stopping.h"

#define FIRST_ANSWER  (5 * NANOS_PER_SEC)  /* a server that has never answered gets no longer */
#define RELEASE_LIMIT (2 * NANOS_PER_SEC)
#define CANCEL_LIMIT  (500 * NANOS_PER_MS) /* taking the request back before dying of a signal */
#define LATE_LIMIT    (80 * NANOS_PER_MS)  /* the same when -w is over, which is kept to 100 ms */
#define STOP_SLACK    (50 * NANOS_PER_MS)  /* what the keeper may be late before the front steps in */
#define KILL_SLACK    (100 * NANOS_PER_MS)
#define RELEASE_SLACK (500 * NANOS_PER_MS)
#define RETRY_LEAST   50 /* ms between tries to reach a server that has answered before */
#define RETRY_MORE    200

struct front {
	const struct front_task *task;
	struct lock *lock;
	struct outcome *outcome;
	struct process_tree tree; /* empty, unless the keeper dies: then its children become ours */
	struct stopping stopping;
	struct lease *lease;
	pid_t keeper;		  /* 0: none */
	int keeper_fd, news_fd, timer;
	int ending_fd;		  /* signals that end a wait, as data; all of them are passed on to COMMAND */
	int other_fd;		  /* the other signals that are passed on */
	int terminal_signal;	  /* INT or QUIT that the terminal sent to COMMAND and us */
	bool answered;		  /* a server has answered: from now on a broken connection is mended */
	bool outstanding;	  /* a request or a place in the queue is to be taken back in the end */
	bool asked_to_stop;	  /* the keeper stood still at stop_at */
};

/* ---- before the lock is held ---- */

/* How long the server may take: to the end of -w; 5 s if it has never answered. */
static nanos patience_end(const struct front *f)
{
	const struct front_task *task = f->task;
	nanos first = task->started + FIRST_ANSWER;
	nanos end = task->wait == 0 ? first : clock_after(task->started, task->wait);

	return !f->answered && first < end ? first : end;
}

static bool is_late(const struct front *f)
{
	return f->task->wait == 0 || clock_now() >= clock_after(f->task->started, f->task->wait);
}

static struct patience patience(const struct front *f)
{
	return (struct patience){patience_end(f), f->ending_fd};
}

/* Takes back whatever may be under way: a place in the queue, a request that may yet be granted. */
static void withdraw(struct front *f, nanos limit)
{
	static struct lock_answer answer; /* large, and seldom needed */

	if (!f->outstanding)
		return;
	lock_release(f->lock, 0, (struct patience){clock_now() + limit, -1}, &answer);
	handover_verify(f->lock, &answer);
}

static bool end_by_signal(struct front *f)
{
	struct signalfd_siginfo info;

	if (read(f->ending_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return false;
	f->outcome->kind = OUTCOME_CANCELLED;
	f->outcome->end_signal = (int)info.ssi_signo;
	withdraw(f, CANCEL_LIMIT);
	return true;
}

static void end_by_failure(struct front *f, const struct failure *failure)
{
	f->outcome->kind = OUTCOME_FAILED;
	f->outcome->failure = *failure;
}

/* The wait is over without the lock: it is held by another, or no server has answered at all. */
static void end_by_time(struct front *f)
{
	struct failure failure;

	if (f->answered) {
		f->outcome->kind = f->task->wait == 0 ? OUTCOME_BUSY : OUTCOME_TIMEOUT;
	} else {
		failure_set(&failure, EXIT_UNREACHABLE, "no answer from the server");
		end_by_failure(f, &failure);
	}
	withdraw(f, LATE_LIMIT);
}

/* Whether to go on after a step that did not succeed; else the outcome is set. */
static bool may_go_on(struct front *f, enum lock_result result, const struct failure *failure)
{
	struct pollfd signals = {.fd = f->ending_fd, .events = POLLIN};

	if (result == LOCK_CANCELLED)
		return !end_by_signal(f);
	if (result == LOCK_FAILED && !(f->answered && failure->code == EXIT_UNREACHABLE)) {
		end_by_failure(f, failure);
		withdraw(f, LATE_LIMIT);
		return false;
	}
	if (is_late(f) || (!f->answered && clock_now() >= patience_end(f))) {
		end_by_time(f);
		return false;
	}
	if (result == LOCK_FAILED)
		poll(&signals, 1, RETRY_LEAST + (int)arc4random_uniform(RETRY_MORE));
	return true;
}

/* ---- with a keeper ---- */

static bool start_keeper(struct front *f)
{
	const struct front_task *task = f->task;
	struct failure failure;
	struct keeper_task order = {
		.lock = f->lock,
		.lease = f->lease,
		.terms = task->terms,
		.program = task->program,
		.inherited = task->inherited,
		.name = task->name,
		.answer_until = patience_end(f),
		.stop_signal = task->stop_signal,
		.close_early = task->close_early,
		.warn_when_lost = task->warn_when_lost,
		.news_fd = f->news_fd,
	};

	f->keeper = keeper_start(&order);
	f->keeper_fd = f->keeper > 0 ? pidfd_open(f->keeper, 0) : -1;
	if (f->keeper_fd >= 0)
		return true;
	failure_set(&failure, EXIT_SYSTEM, "cannot fork: %s", strerror(errno));
	end_by_failure(f, &failure);
	if (f->keeper > 0)
		kill(f->keeper, SIGKILL);
	withdraw(f, LATE_LIMIT);
	return false;
}

static enum lease_phase phase(const struct front *f)
{
	return atomic_load(&f->lease->phase);
}

static void reap_keeper(struct front *f)
{
	while (waitpid(f->keeper, NULL, 0) < 0 && errno == EINTR)
		continue;
	close(f->keeper_fd);
	f->keeper = 0;
	f->keeper_fd = -1;
}

static void kill_keeper(struct front *f)
{
	kill(f->keeper, SIGKILL);
	reap_keeper(f);
}

/* A signal for COMMAND. The terminal sends its signals to the whole group, COMMAND included. */
static void forward(struct front *f, const struct signalfd_siginfo *info)
{
	int sig = (int)info->ssi_signo;

	if (info->ssi_code == SI_KERNEL && f->task->inherited->terminal) {
		if (sig == SIGINT || sig == SIGQUIT)
			f->terminal_signal = sig;
		return;
	}
	pidfd_send_signal(f->keeper_fd, sig, NULL, 0);
}

/* Passes signals on. True when one of them ends the whole: it came before the lock was granted. */
static bool heed_signals(struct front *f, bool *continued)
{
	struct signalfd_siginfo info;

	while (read(f->ending_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (lease_decide(f->lease, LEASE_CANCELLED)) {
			kill_keeper(f);
			f->outcome->kind = OUTCOME_CANCELLED;
			f->outcome->end_signal = (int)info.ssi_signo;
			withdraw(f, CANCEL_LIMIT);
			return true;
		}
		forward(f, &info);
	}
	while (read(f->other_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		*continued |= info.ssi_signo == SIGCONT;
		forward(f, &info);
	}
	return false;
}

/* COMMAND was stopped: so is dlock, or the shell would wait for it for ever. News that is older
 * than a SIGCONT is void: Ctrl-Z stopped us along with COMMAND, and we have been continued since. */
static void heed_news(struct front *f, bool continued)
{
	uint64_t times;

	if (read(f->news_fd, &times, sizeof(times)) < 0 || continued)
		return;
	if (f->task->inherited->terminal && atomic_load(&f->lease->command_stopped))
		raise(SIGTSTP);
}

/* When the front must look whether the keeper does its duty. */
static nanos next_look(const struct front *f)
{
	nanos valid_until = atomic_load(&f->lease->valid_until);

	if (phase(f) == LEASE_RELEASING)
		return f->lease->release_until + RELEASE_SLACK;
	if (valid_until == 0 || f->task->warn_when_lost)
		return NANOS_NEVER;
	return f->asked_to_stop ? lease_kill_at(valid_until) + KILL_SLACK
				: lease_stop_at(&f->task->terms, valid_until) + STOP_SLACK;
}

/* The keeper stands still (SIGSTOP) while the lease runs out: ask the tree to stop, and in the end
 * kill the keeper. That kills COMMAND at once, and the rest of the tree becomes ours. */
static void step_in(struct front *f)
{
	if (clock_now() < next_look(f))
		return;
	if (!f->asked_to_stop && phase(f) != LEASE_RELEASING) {
		f->asked_to_stop = true;
		if (phase(f) == LEASE_HELD)
			tree_signal_below(f->keeper, f->task->stop_signal);
	} else {
		kill(f->keeper, SIGKILL);
	}
}

/* From the fork to the keeper's end, or until it needs us no longer. False when a signal ended it all. */
static bool watch_keeper(struct front *f)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = f->keeper_fd, .events = POLLIN},
			{.fd = f->ending_fd, .events = POLLIN},
			{.fd = f->other_fd, .events = POLLIN},
			{.fd = f->news_fd, .events = POLLIN},
			{.fd = f->timer, .events = POLLIN},
		};
		bool continued = false;

		clock_timer_set(f->timer, next_look(f));
		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
			continue;
		if (fds[0].revents) {
			reap_keeper(f);
			return true;
		}
		if ((fds[1].revents || fds[2].revents) && heed_signals(f, &continued))
			return false;
		if (phase(f) == LEASE_LINGERING || phase(f) == LEASE_ENDED)
			return true;
		if (fds[3].revents)
			heed_news(f, continued);
		if (fds[4].revents)
			step_in(f);
	}
}

/* ---- the ends ---- */

static void tell_run(struct front *f)
{
	struct outcome *outcome = f->outcome;
	const struct lease *lease = f->lease;

	outcome->answer = lease->answer;
	outcome->command_ended = atomic_load(&lease->command_over);
	outcome->command_status = lease->command_status;
	outcome->held = lease->held;
	outcome->reclaimed = atomic_load(&lease->reclaimed);
	memcpy(outcome->survivors, lease->survivors, sizeof(outcome->survivors));
}

/* COMMAND ran, or could not be started; the keeper has done its work. */
static void conclude(struct front *f)
{
	const struct lease *lease = f->lease;

	tell_run(f);
	if (lease->command_errno != 0) {
		struct failure failure;

		failure_set(&failure, lease->exec_failed ? EXIT_NOT_EXECUTABLE : EXIT_SYSTEM,
			"cannot execute '%s': %s", f->task->program->argv[0], strerror(lease->command_errno));
		end_by_failure(f, &failure);
		return;
	}
	f->outcome->kind = atomic_load(&lease->lost) || lease->stop != STOP_NONE ? OUTCOME_LOST : OUTCOME_RAN;
	/* A shell's loop ends when what it runs dies of Ctrl-C, not when it exits with 130. */
	if (f->outcome->kind == OUTCOME_RAN && WIFSIGNALED(lease->command_status) &&
		WTERMSIG(lease->command_status) == f->terminal_signal)
		f->outcome->end_signal = f->terminal_signal;
}

/* Stops what the dead keeper left; it is our child now. Nobody renews meanwhile. */
static void stop_orphans(struct front *f)
{
	nanos limit = lease_kill_at(atomic_load(&f->lease->valid_until));
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	tree_reap(&f->tree);
	stopping_begin(&f->stopping, &f->tree, f->task->stop_signal, f->task->terms.grace);
	while (tree_reap(&f->tree), !f->tree.empty && !stopping_is_hopeless(&f->stopping, &f->tree)) {
		nanos left;

		stopping_step(&f->stopping, &f->tree, limit);
		left = stopping_due(&f->stopping, limit) - clock_now();
		if (left > 0)
			sigtimedwait(&child, NULL, &(struct timespec){left / NANOS_PER_SEC, left % NANOS_PER_SEC});
	}
}

static const char *explain_takeover(const struct front *f)
{
	if (f->asked_to_stop)
		return "dlock's keeper stood still and the lock could not be proved any longer; COMMAND was stopped";
	if (atomic_load(&f->lease->command) == 0)
		return "dlock's keeper was killed";
	return "dlock's keeper was killed; COMMAND was stopped";
}

/* The keeper died before its work was done. COMMAND went with it (PR_SET_PDEATHSIG). */
static void take_over(struct front *f)
{
	static struct lock_answer answer; /* large, and seldom needed */
	nanos limit = clock_now() + RELEASE_LIMIT;

	f->tree.command = atomic_load(&f->lease->command);
	stop_orphans(f);
	tell_run(f);
	if (f->tree.over) {
		f->outcome->command_ended = true;
		f->outcome->command_status = f->tree.status;
	}
	if (!f->tree.empty)
		tree_list(&f->tree, f->outcome->survivors, LEASE_SURVIVORS);
	f->outcome->kind = f->asked_to_stop || atomic_load(&f->lease->lost) ? OUTCOME_LOST : OUTCOME_KILLED;
	message_say(MESSAGE_ERROR, "%s", explain_takeover(f));
	lock_reset(f->lock); /* the keeper has used these connections */
	lock_release(f->lock, 0, (struct patience){limit, -1}, &answer);
	if (answer.result == LOCK_LOST)
		f->outcome->kind = OUTCOME_LOST;
	handover_verify(f->lock, &answer);
}

/* The request was refused, or came too late. */
static void learn_denial(struct front *f)
{
	const struct lock_answer *answer = &f->lease->answer;

	lock_learn(f->lock, answer);
	if (answer->result == LOCK_BUSY) {
		f->answered = true;
		f->outstanding = f->task->wait != 0;
		f->outcome->answer = *answer;
		handover_verify(f->lock, &f->lease->answer);
	}
}

/* One request, from asking to COMMAND's end. True: it was denied, and the outcome is still open. */
static bool try_once(struct front *f)
{
	struct failure failure = {0};
	enum lock_result result = lock_ask(f->lock, patience(f), &failure);

	if (result != LOCK_GRANTED)
		return may_go_on(f, result, &failure);
	f->outstanding = true;
	if (!start_keeper(f) || !watch_keeper(f))
		return false;
	if (phase(f) == LEASE_DENIED) {
		learn_denial(f);
		return may_go_on(f, f->lease->answer.result, &f->lease->answer.failure);
	}
	f->outcome->waited = f->lease->answer.asked_at - f->task->started;
	if (phase(f) == LEASE_ENDED || phase(f) == LEASE_LINGERING)
		conclude(f);
	else
		take_over(f);
	return false;
}

static bool wait_for_turn(struct front *f)
{
	struct failure failure = {0};
	enum lock_result result;

	if (f->lease->answer.result != LOCK_BUSY)
		return true;
	result = lock_listen(f->lock, patience(f), &failure);
	return result == LOCK_GRANTED || may_go_on(f, result, &failure);
}

static bool open_front(struct front *f)
{
	const struct inherited *inherited = f->task->inherited;
	sigset_t other = inherited->forwarded;
	struct failure failure;

	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&inherited->ending, sig) == 1)
			sigdelset(&other, sig);
	tree_open(&f->tree);
	f->ending_fd = signalfd(-1, &inherited->ending, SFD_CLOEXEC | SFD_NONBLOCK);
	f->other_fd = signalfd(-1, &other, SFD_CLOEXEC | SFD_NONBLOCK);
	f->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->timer = clock_timer_open();
	f->lease = lease_open();
	if (f->ending_fd >= 0 && f->other_fd >= 0 && f->news_fd >= 0 && f->timer >= 0 && f->lease)
		return true;
	failure_set(&failure, EXIT_SYSTEM, "%s", strerror(errno));
	end_by_failure(f, &failure);
	return false;
}

void front_run(const struct front_task *task, struct outcome *outcome)
{
	struct front f = {.task = task, .lock = task->lock, .outcome = outcome, .keeper_fd = -1};

	if (!open_front(&f))
		return;
	while (try_once(&f) && wait_for_turn(&f))
		lease_reset(f.lease);
}
