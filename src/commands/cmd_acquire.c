/* dlock acquire NAME: the lock NAME, detached, for its token on standard output. */
#include "commands/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "base/output.h"
#include "cli/options.h"
#include "commands/take_lock.h"
#include "lock/lock.h"
#include "supervise/outcome.h"

/* NFS finds a full disk when a descriptor is closed, any one of the file's. */
static bool is_kept(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	return copy >= 0 && close(copy) == 0;
}

/* A reader may be slow, or stopped: a signal ends that as it ends the wait. */
static enum lock_result write_out(
	const char *text, size_t length, struct deadline deadline, struct failure *failure)
{
	while (length > 0) {
		enum deadline_end end = deadline_wait(&deadline, STDOUT_FILENO, POLLOUT);
		ssize_t written;

		if (end != DEADLINE_READY)
			return end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
		written = write(STDOUT_FILENO, text, length);
		if (written < 0 && errno != EAGAIN && errno != EINTR)
			break;
		text += written > 0 ? written : 0;
		length -= written > 0 ? (size_t)written : 0;
	}
	if (length == 0 && is_kept(STDOUT_FILENO))
		return LOCK_GRANTED;
	failure_set(failure, EXIT_SYSTEM, "cannot print the token: %s; the lock is released",
		strerror(errno));
	return LOCK_FAILED;
}

/* Struct front_task's. */
static enum lock_result print_token(
	struct lock *lock, struct lock_answer *granted, struct deadline deadline)
{
	char line[LOCK_TOKEN_SIZE + 24];
	struct deadline now = {.cancel_fd = deadline.cancel_fd};

	/* If a signal came before the token was out, no process is left to release the lock. */
	if (deadline_wait(&now, -1, 0) == DEADLINE_CANCELLED)
		return LOCK_CANCELLED;
	snprintf(line, sizeof(line), "%s %" PRIu64 "\n", lock_token(lock), granted->fence);
	return write_out(line, strlen(line), deadline, &granted->failure);
}

static bool prepare(const struct options *options, struct taking *taking, struct failure *failure)
{
	(void)failure;
	taking->request.detached = true;
	taking->task.terms = (struct lease_terms){.ttl = options->ttl};
	taking->task.deliver = print_token;
	return true;
}

int cmd_acquire(const struct options *options)
{
	static struct outcome outcome;

	if (!output_can_go_to(STDOUT_FILENO)) {
		message_say(MESSAGE_ERROR,
			"cannot print the token: standard output is not open for writing");
		return EXIT_SYSTEM;
	}
	take_lock(options, prepare, &outcome);
	return take_lock_end(&outcome, options, NULL);
}
