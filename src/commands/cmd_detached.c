/* dlock renew NAME TOKEN: more time for a detached lock. dlock release NAME TOKEN: its release;
 * with
 * --force that of any lock; without TOKEN and --force the end of the dlock hold around it. */
#include "commands/commands.h"

#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/message.h"
#include "cli/options.h"
#include "hold/release_socket.h"
#include "lock/holder.h"
#include "lock/lock.h"
#include "lock/token.h"
#include "net/server.h"
#include "process/process.h"

#define LIMIT      (5 * NANOS_PER_SEC)
#define DEPTH_MOST 64

static int say_free(const struct options *options)
{
	if (options->fence > 0)
		message_say(MESSAGE_ERROR,
			"no holder has the fencing token %" PRId64 ": nothing was released",
			options->fence);
	else
		message_say(MESSAGE_ERROR, "it is free: there was nothing to release");
	return EXIT_BUSY;
}

static int end(struct lock_answer *answer, const struct options *options)
{
	switch (answer->result) {
	case LOCK_GRANTED:
	case LOCK_RELEASED:
		return EXIT_DONE;
	case LOCK_GONE:
		return say_free(options);
	case LOCK_LOST:
		if (answer->failure.code == EXIT_DONE) /* the service knows no more */
			token_refuse(false, &answer->failure);
		return message_failure(&answer->failure);
	case LOCK_FAILED:
		return message_failure(&answer->failure);
	default:
		message_say(MESSAGE_ERROR, "no answer from %s", options->server->text);
		return EXIT_UNREACHABLE;
	}
}

/* One step on a lock that another process took, by its token or by force. Says in one line what
 * kept it from success, and returns the exit code. */
static int do_step(const struct options *options,
	void (*step)(struct lock *lock, const struct options *options, struct deadline deadline,
		struct lock_answer *answer))
{
	static struct lock_answer answer; /* large */
	struct deadline deadline = deadline_alone(clock_after(options->started, LIMIT));
	struct lock_request request = {
		.name = options->name,
		.prefix = options->prefix,
		.token = options->token,
		.detached = options->token != NULL,
		.ttl_ms = options->ttl_given ? options->ttl / NANOS_PER_MS : 0,
		.fence = options->fence,
		.self = &(struct owner){.pid = 0},
	};
	struct failure failure;
	struct lock *lock;

	signal(SIGPIPE, SIG_IGN); /* a message without a reader is lost, no more */
	options_guard_password(options);
	lock = lock_open(options->server, &request, &failure);
	if (!lock)
		return message_failure(&failure);
	message_say(MESSAGE_INFO, "asking %s", options->server->text);
	step(lock, options, deadline, &answer);
	lock_verify(lock, LOCK_VERIFY_GLANCE);
	lock_close(lock);
	return end(&answer, options);
}

static void renew(struct lock *lock, const struct options *options, struct deadline deadline,
	struct lock_answer *answer)
{
	char span[DURATION_TEXT];

	lock_renew(lock, deadline, answer);
	if (answer->result == LOCK_GRANTED)
		message_say(MESSAGE_INFO, "renewed, for %s",
			options->ttl_given ? duration_format_given(options->ttl, span)
					   : "as long as it was acquired for");
}

int cmd_renew(const struct options *options)
{
	return do_step(options, renew);
}

/* A holder whose lease is not known is told at once, and stops COMMAND after the grace. */
static void say_forced(const struct lock_answer *held, void *context)
{
	nanos within = held->free_in_ms < 0 ? OPTIONS_GRACE_MOST + NANOS_PER_SEC
					    : held->free_in_ms * NANOS_PER_MS;
	char text[HOLDER_TEXT], span[DURATION_TEXT];

	(void)context;
	holder_describe(held, 0, text);
	if (held->foreign || held->detached)
		message_say(MESSAGE_WARNING, "released by force: %s", text);
	else
		message_say(MESSAGE_WARNING,
			"released by force: %s; its COMMAND is stopped within %s", text,
			duration_format((within / NANOS_PER_SEC + 1) * NANOS_PER_SEC, span));
}

static void release(struct lock *lock, const struct options *options, struct deadline deadline,
	struct lock_answer *answer)
{
	if (options->force)
		lock_force(lock, say_forced, NULL, deadline, answer);
	else
		lock_release(lock, NULL, deadline, answer);
}

/* Asks the keepers of this process and of its ancestors in turn, the nearest first, and returns the
 * exit code when the lock has been released; says in one line if none of them has the lock. */
static int release_hold(const struct options *options)
{
	uint64_t space = process_namespace();
	pid_t pid = getpid(); /* a shell's last command: it has become this process */
	struct process process;

	for (int depth = 0; depth < DEPTH_MOST && process_read(pid, &process); depth++) {
		struct release_address named = {
			pid, process.start, space, options->prefix, options->name};
		int answer = release_socket_request(&named);

		if (answer >= 0)
			return answer; /* the keeper has said what there was to say */
		if (answer == -2) {
			message_say(MESSAGE_ERROR, "its keeper did not answer: it was killed, "
						   "stands still, or is another user's");
			return EXIT_INTERNAL;
		}
		pid = process.parent;
	}
	message_say(
		MESSAGE_ERROR, "no dlock hold around this process holds it; else give its TOKEN");
	return EXIT_BUSY;
}

int cmd_release(const struct options *options)
{
	return options->token || options->force ? do_step(options, release) : release_hold(options);
}
