#include "hold_release.h"

#include <unistd.h>

#include "doorbell.h"
#include "exitcode.h"
#include "message.h"
#include "options.h"
#include "process.h"

#define DEPTH_MOST 64

int hold_release(const struct options *options)
{
	pid_t pid = getppid();
	struct process process;

	for (int depth = 0; depth < DEPTH_MOST && process_read(pid, &process); depth++) {
		struct doorbell bell = {pid, process.start, options->prefix, options->name};
		int answer = doorbell_ring(&bell);

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
