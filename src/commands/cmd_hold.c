/* dlock hold NAME: the lock NAME for the rest of a shell script. */
#include "commands/commands.h"

#include <unistd.h>

#include "base/message.h"
#include "base/output.h"
#include "cli/options.h"
#include "commands/take_lock.h"
#include "hold/hold.h"
#include "process/process.h"
#include "process/surroundings.h"
#include "supervise/outcome.h"

/* The caller is the holder: what runs below it finds itself inside the lock. Only the options
 * about the lock count, even if a configuration has others. */
static bool prepare(const struct options *options, struct taking *taking, struct failure *failure)
{
	static struct hold hold;
	struct owner *owner = &taking->task.lease->owner;
	char program[PROCESS_PROGRAM];

	hold.print = options->print;
	if (!surroundings_suffice(&taking->caller_state, failure) ||
		!(options->pid > 0 ? caller_open(&hold.caller, options->pid, failure)
				   : caller_find(&hold.caller, failure)))
		return false;
	process_program(hold.caller.pid, program);
	if (!options->label)
		owner_self(owner, program);
	owner->pid = hold.caller.pid;
	owner->start = hold.caller.start;
	taking->request.cooldown_ms = 0;
	taking->request.once = NULL;
	taking->request.hold = true;
	taking->task.ward = (struct ward){&hold_ward, &hold, hold.caller.fd};
	return true;
}

int cmd_hold(const struct options *options)
{
	static struct outcome outcome;

	if (options->print && !output_can_go_to(STDOUT_FILENO)) {
		message_say(MESSAGE_ERROR, "--print: standard output is not open for writing");
		return EXIT_SYSTEM;
	}
	take_lock(options, prepare, &outcome);
	return take_lock_end(&outcome, options, NULL);
}
