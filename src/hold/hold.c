#include "hold/hold.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/message.h"
#include "base/newer_libc.h"
#include "base/number.h"
#include "base/output.h"
#include "base/wakeup.h"
#include "process/caller_state.h"
#include "process/process.h"
#include "supervise/guest.h"
#include "supervise/keeper_loop.h"
#include "supervise/keeper_watch.h"
#include "supervise/outcome.h"
#include "supervise/task.h"

/* ---- the front ---- */

static void explain_end(const struct task *task, struct failure *failure)
{
	const struct hold *hold = task->ward.own;

	failure_set(failure, EXIT_SYSTEM, "process %d, which was to hold the lock, has ended",
		(int)hold->caller.pid);
}

/* export VARIABLE='TEXT', whatever TEXT holds. */
static void print_export(const char *variable, const char *text)
{
	printf("export %s='", variable);
	for (; *text != '\0'; text++)
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	puts("'");
}

static bool print_exports(const struct task *task, struct failure *failure)
{
	const struct lock_answer *answer = &task->lease->answer;
	char fence[NUMBER_SIZE];

	number_write_unsigned(fence, answer->fence);
	print_export("DLOCK_NAME", task->name);
	print_export("DLOCK_TOKEN", guest_token(task));
	print_export("DLOCK_FENCE", fence);
	if (answer->has_slot) {
		number_write(fence, answer->slot);
		print_export("DLOCK_SLOT", fence);
	}
	return output_finish(failure);
}

/* Whether the keeper has the lock and stays, or none has to. */
static bool is_held(const struct lease *lease)
{
	return lease->covered || atomic_load(&lease->phase) == LEASE_LINGERING;
}

static void conclude_held(const struct task *task, struct outcome *outcome)
{
	const struct hold *hold = task->ward.own;
	struct failure failure;

	/* A reader may be slow, or stopped: a signal ends that, and us, at once. */
	if (hold->print)
		sigprocmask(SIG_SETMASK, &task->caller_state->mask, NULL);
	if (hold->print && !print_exports(task, &failure)) {
		outcome_fail(outcome, &failure); /* the keeper releases the lock */
		return;
	}
	outcome->kind = OUTCOME_HELD;
	atomic_store(&task->lease->told, true);
}

/* The caller learns of the lock by the front's exit code. If a signal ends the front before that,
 * the keeper finds that the caller was not told, and releases the lock. */
static void conclude(const struct keeper_watch *watch, struct outcome *outcome)
{
	const struct lease *lease = watch->lease;

	if (watch->ending_signal != 0) {
		outcome->kind = OUTCOME_CANCELLED;
		outcome->end_signal = watch->ending_signal;
	} else if (is_held(lease)) {
		conclude_held(watch->task, outcome);
	} else {
		bool lost = atomic_load(&lease->lost) || lease->stop != STOP_NONE;

		message_say(MESSAGE_ERROR, "the lock was %s at once", lost ? "lost" : "released");
		outcome->kind = lost ? OUTCOME_LOST : OUTCOME_KILLED;
	}
}

/* ---- the keeper ---- */

static struct hold *hold_of(const struct keeper_loop *loop)
{
	return loop->task->ward.own;
}

static void open_release_socket(const struct task *task, struct hold *hold)
{
	hold->release_socket = (struct release_socket){.fd = -1};
	if (!release_socket_open(&hold->release_socket,
		    &(struct release_address){hold->caller.pid, hold->caller.start,
			    process_namespace(), task->request->prefix, task->name}))
		message_say(MESSAGE_WARNING, "dlock release will not find this lock: %s",
			strerror(errno));
}

static bool start(struct keeper_loop *loop)
{
	struct hold *hold = hold_of(loop);

	process_keep_proc();
	tree_close();
	hold->tree = (struct foreign_tree){
		.root = hold->caller.pid, .start = hold->caller.start, .fd = hold->caller.fd};
	foreign_tree_attach(&hold->tree, &loop->tree);
	loop->tree.status = -1; /* the caller's exit status never comes to us */
	open_release_socket(loop->task, hold);
	loop->ward_fd = hold->caller.fd;
	loop->release_fd = hold->release_socket.fd;
	loop->lingering = true;
	prctl(PR_SET_NAME, HOLDER_PROGRAM);
	caller_state_close(loop->task->caller_state);
	message_divert(caller_report, &hold->caller);
	(void)!chdir("/"); /* or the file system of the caller's could not be unmounted */
	atomic_store(&loop->lease->phase, LEASE_LINGERING);
	wakeup_send(loop->task->wakeup_fd);
	return true;
}

static bool release_asked(struct keeper_loop *loop)
{
	return release_socket_accept(&hold_of(loop)->release_socket);
}

/* A service manager that stops a service, or a host that shuts down, sends its signal to the keeper
 * as well. The caller may take its time to end, and needs the lock until then: so the keeper passes
 * the signal on, and stays. A signal that came to the front is the front's, which ends by it. */
static void forward(struct keeper_loop *loop, const struct signalfd_siginfo *info)
{
	if ((pid_t)info->ssi_pid == loop->front)
		return;
	switch (info->ssi_signo) {
	case SIGTERM:
	case SIGINT:
	case SIGHUP:
	case SIGQUIT:
		pidfd_send_signal(hold_of(loop)->caller.fd, (int)info->ssi_signo, NULL, 0);
		break;
	default:
		break;
	}
}

/* The front ends when the caller is told. If it was not, the caller does not know that it has the
 * lock, and --at-least does not count. */
static void front_gone(struct keeper_loop *loop)
{
	if (atomic_load(&loop->lease->told))
		return;
	loop->lease->terms.at_least = 0;
	loop->given_back = true;
}

/* The caller may have ended by the time of the message, and is told all the same. */
static void before_stop(struct keeper_loop *loop)
{
	caller_keep_stderr(&hold_of(loop)->caller);
}

static void after_stop(struct keeper_loop *loop)
{
	caller_drop_stderr(&hold_of(loop)->caller);
}

static void releasing(struct keeper_loop *loop)
{
	loop->release_fd = -1;
	release_socket_close(&hold_of(loop)->release_socket);
}

static int exit_code(const struct keeper_loop *loop, enum lock_result released)
{
	if (loop->stop != STOP_NONE || released == LOCK_LOST)
		return EXIT_LOST;
	return released == LOCK_RELEASED || released == LOCK_GONE ? EXIT_DONE : EXIT_UNREACHABLE;
}

static void released(struct keeper_loop *loop, const struct lock_answer *answer)
{
	struct release_socket *release_socket = &hold_of(loop)->release_socket;

	/* Whatever asked for it may think that the lock is free now. */
	if (release_socket->count > 0 && !loop->lock)
		message_say(MESSAGE_WARNING, "the lock stays with the dlock around this one");
	release_socket_answer(release_socket, exit_code(loop, answer->result));
}

const struct ward_ops hold_ward = {
	.name = "its caller",
	.own_session = true, /* the keeper outlives a script that may have the terminal: no Ctrl-C,
				and no hangup */
	.explain_end = explain_end,
	.conclude = conclude,
	.start = start,
	.release_asked = release_asked,
	.forward = forward,
	.front_gone = front_gone,
	.before_stop = before_stop,
	.after_stop = after_stop,
	.releasing = releasing,
	.released = released,
};
