#include "commands/detached.h"

#include <signal.h>

#include "base/message.h"
#include "cli/options.h"
#include "cli/password.h"
#include "net/server.h"

#define LIMIT (5 * NANOS_PER_SEC)

static int end(const struct lock_answer *answer, const struct options *options)
{
	struct failure failure;

	switch (answer->result) {
	case LOCK_GRANTED:
	case LOCK_RELEASED:
		return EXIT_DONE;
	case LOCK_GONE:
		failure_set(&failure, EXIT_BUSY, "it is free: there was nothing to release");
		return message_failure(&failure);
	case LOCK_LOST:
	case LOCK_FAILED:
		return message_failure(&answer->failure);
	default:
		failure_set(&failure, EXIT_UNREACHABLE, "no answer from %s", options->server->text);
		return message_failure(&failure);
	}
}

int detached_step(const struct options *options,
	void (*step)(struct lock *lock, const struct options *options, struct deadline deadline,
		struct lock_answer *answer))
{
	static struct lock_answer answer; /* large */
	struct deadline deadline = deadline_alone(clock_after(options->started, LIMIT));
	struct lock_request request = {
		.name = options->name,
		.prefix = options->prefix,
		.token = options->token,
		.detached = true,
		.ttl_ms = options->ttl_given ? options->ttl / NANOS_PER_MS : 0,
	};
	struct failure failure;
	struct lock *lock;

	signal(SIGPIPE, SIG_IGN); /* a message without a reader is lost, no more */
	password_guard(options->server);
	lock = lock_open(options->server, &request, &failure);
	if (!lock)
		return message_failure(&failure);
	message_say(MESSAGE_INFO, "asking %s", options->server->text);
	step(lock, options, deadline, &answer);
	lock_close(lock);
	return end(&answer, options);
}
