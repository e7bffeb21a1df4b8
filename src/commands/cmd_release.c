/* dlock release NAME TOKEN: releases a detached lock; with --force any; without TOKEN and
 * --force ends the dlock hold around it. */
#include "commands/commands.h"

#include <unistd.h>

#include "base/exitcode.h"
#include "base/message.h"
#include "cli/options.h"
#include "commands/detached.h"
#include "hold/release_socket.h"
#include "lock/handoff.h"
#include "lock/holder.h"
#include "lock/lock.h"
#include "process/process.h"

#define DEPTH_MOST 64

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

static void release(struct lock *lock, const struct options *options, struct deadline deadline,
	struct lock_answer *answer)
{
	(void)options;
	lock_release(lock, NULL, deadline, answer);
	handoff_see_to(lock);
}

static void say_forced(const struct lock_answer *held, void *context)
{
	char text[HOLDER_TEXT];

	(void)context;
	message_say(MESSAGE_WARNING, "released by force: %s", holder_describe(held, 0, text));
}

static void force(struct lock *lock, const struct options *options, struct deadline deadline,
	struct lock_answer *answer)
{
	(void)options;
	lock_force(lock, say_forced, NULL, deadline, answer);
	handoff_see_to(lock);
}

int cmd_release(const struct options *options)
{
	if (!options->token && !options->force)
		return release_hold(options);
	return detached_step(options, options->force ? force : release);
}
