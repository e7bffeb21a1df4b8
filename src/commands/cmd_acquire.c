/* dlock acquire NAME: the lock NAME, detached, for its token on standard output. */
#include "commands/commands.h"

#include <unistd.h>

#include "base/message.h"
#include "base/output.h"
#include "cli/options.h"
#include "commands/take_lock.h"
#include "supervise/outcome.h"

static bool prepare(const struct options *options, struct taking *taking, struct failure *failure)
{
	(void)failure;
	taking->request.detached = true;
	taking->task.lease->terms = (struct lease_terms){.ttl = options->ttl};
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
