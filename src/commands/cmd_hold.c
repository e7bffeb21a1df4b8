/* dlock hold NAME: the lock NAME for the rest of a shell script. */
#include "commands/commands.h"

#include <unistd.h>

#include "base/message.h"
#include "base/output.h"
#include "cli/options.h"
#include "commands/take_lock.h"
#include "hold/hold.h"
#include "lock/lock.h"
#include "lock/nesting.h"
#include "net/server.h"
#include "process/caller_state.h"
#include "process/process.h"
#include "process/surroundings.h"
#include "supervise/front.h"
#include "supervise/outcome.h"

static bool find_caller(
	const struct options *options, struct caller *caller, struct failure *failure)
{
	return options->pid > 0 ? caller_open(caller, options->pid, failure)
				: caller_find(caller, failure);
}

/* The caller is the holder: what runs below it finds itself inside the lock. Only the options
 * about the lock count, even if a configuration has others. */
static void prepare(const struct options *options, const struct nesting *nesting,
	const struct caller *caller, struct lease *lease, struct lock_request *request)
{
	static char program[PROCESS_PROGRAM];
	struct options own = *options;

	process_program(caller->pid, program);
	if (!own.label)
		own.label = program;
	own.cooldown = 0;
	own.once = NULL;
	take_lock_prepare(&own, nesting, lease, request);
	request->hold = true;
	lease->owner.pid = caller->pid;
	lease->owner.start = caller->start;
}

static void hold(const struct options *options, struct outcome *outcome)
{
	static struct caller_state caller_state;
	struct hold hold = {.caller_state = &caller_state,
		.prefix = options->prefix,
		.name = options->name,
		.print = options->print};
	struct nesting nesting;
	struct lock_request request;
	struct front_task task;
	struct failure failure;
	struct lease *lease = take_lock_begin(options, &caller_state, &nesting, &failure);
	struct lock *lock = NULL;

	if (lease && surroundings_suffice(&caller_state, &failure) &&
		find_caller(options, &hold.caller, &failure)) {
		prepare(options, &nesting, &hold.caller, lease, &request);
		lock = lock_open(options->server, &request, &failure);
	}
	if (!lock) {
		outcome_fail(outcome, &failure);
		return;
	}
	take_lock_announce(options->server);
	task = take_lock_task(options, lock, lease, &nesting, &request, &caller_state);
	task.ward = (struct ward){&hold_ward, &hold};
	front_run(&task, outcome);
	if (task.lock)
		lock_close(task.lock);
}

int cmd_hold(const struct options *options)
{
	static struct outcome outcome;

	if (options->print && !output_can_go_to(STDOUT_FILENO)) {
		message_say(MESSAGE_ERROR, "--print: standard output is not open for writing");
		return EXIT_SYSTEM;
	}
	hold(options, &outcome);
	return take_lock_end(&outcome, options, NULL);
}
