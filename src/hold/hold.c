#include "hold/hold.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/message.h"
#include "base/output.h"
#include "base/wakeup.h"
#include "hold/release_socket.h"
#include "lock/nesting.h"
#include "process/caller_state.h"
#include "process/foreign_tree.h"
#include "process/process.h"
#include "supervise/keeper.h"
#include "supervise/keeper_loop.h"
#include "supervise/outcome.h"
#include "supervise/survivors.h"

/* ---- the front ---- */

int hold_cancel_fd(const struct hold *hold, int cancel_fd)
{
	struct epoll_event readable = {.events = EPOLLIN};
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, cancel_fd, &readable) < 0 ||
		epoll_ctl(fd, EPOLL_CTL_ADD, hold->caller.fd, &readable) < 0)
		return -1;
	return fd;
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

static bool print_exports(const struct hold *hold, const struct lock_answer *answer,
	const char *token, struct failure *failure)
{
	bool within = answer->result == LOCK_WITHIN;
	const char *holder = within ? answer->holder_token : token;
	char fence[24];

	snprintf(fence, sizeof(fence), "%" PRIu64,
		within ? nesting_fence(hold->name, holder, answer->fence) : answer->fence);
	print_export("DLOCK_NAME", hold->name);
	print_export("DLOCK_TOKEN", holder);
	print_export("DLOCK_FENCE", fence);
	return output_finish(failure);
}

/* Whether the keeper has the lock and stays, or none has to. */
static bool is_held(const struct lease *lease)
{
	return lease->answer.covered || atomic_load(&lease->phase) == LEASE_LINGERING;
}

void hold_conclude(
	const struct hold *hold, struct lease *lease, const char *token, struct outcome *outcome)
{
	struct failure failure;

	if (!is_held(lease)) {
		bool lost = atomic_load(&lease->lost) || lease->stop != STOP_NONE;

		message_say(MESSAGE_ERROR, "the lock was %s at once", lost ? "lost" : "given back");
		outcome->kind = lost ? OUTCOME_LOST : OUTCOME_KILLED;
		return;
	}
	/* A reader may be slow, or stopped: a signal ends that, and us, at once. */
	if (hold->print)
		sigprocmask(SIG_SETMASK, &hold->caller_state->mask, NULL);
	if (hold->print && !print_exports(hold, &lease->answer, token, &failure)) {
		outcome_fail(outcome, &failure); /* the keeper gives the lock back */
		return;
	}
	outcome->kind = OUTCOME_HELD;
	atomic_store(&lease->told, true);
}

/* ---- the keeper ---- */

static bool report_caller(const char *line, size_t length, void *context)
{
	return caller_report(context, line, length);
}

void hold_begin(struct keeper_loop *s)
{
	struct hold *hold = s->task->hold;

	if (s->lease->answer.covered) {
		atomic_store(&s->lease->phase, LEASE_ENDED);
		_exit(0);
	}
	tree_close();
	s->other = (struct foreign_tree){
		.root = hold->caller.pid, .start = hold->caller.start, .fd = hold->caller.fd};
	foreign_tree_attach(&s->other, &s->tree);
	s->tree.status = -1; /* none that would be known to us */
	if (!release_socket_open(&s->release_socket,
		    &(struct release_address){hold->caller.pid, hold->caller.start,
			    process_namespace(), hold->prefix, hold->name}))
		message_say(MESSAGE_WARNING, "dlock release will not find this lock: %s",
			strerror(errno));
	s->lingering = true;
	prctl(PR_SET_NAME, HOLDER_PROGRAM);
	caller_state_close();
	message_divert(report_caller, &hold->caller);
	(void)!chdir("/"); /* or the file system of the caller's could not be unmounted */
	atomic_store(&s->lease->phase, LEASE_LINGERING);
	wakeup_send(s->task->wakeup_fd);
}

static int exit_code(const struct keeper_loop *s, enum lock_result released)
{
	if (s->stop != STOP_NONE || released == LOCK_LOST)
		return EXIT_LOST;
	return released == LOCK_RELEASED || released == LOCK_GONE ? EXIT_DONE : EXIT_UNREACHABLE;
}

void hold_end(struct keeper_loop *s, const struct lock_answer *answer)
{
	/* Who asked for it may think that the lock is free now. */
	if (s->release_socket.count > 0 && answer->around)
		message_say(MESSAGE_WARNING, "the lock stays with the dlock around this one");
	release_socket_answer(&s->release_socket, exit_code(s, answer->result));
}
