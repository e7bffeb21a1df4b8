/* dlock [run] NAME COMMAND: COMMAND under the lock NAME. */
#include "commands/commands.h"

#include "base/message.h"
#include "cli/hint.h"
#include "cli/options.h"
#include "commands/report.h"
#include "commands/take_lock.h"
#include "lock/lock.h"
#include "lock/lock_set.h"
#include "lock/nesting.h"
#include "net/server.h"
#include "process/caller_state.h"
#include "process/program.h"
#include "process/surroundings.h"
#include "supervise/command_ward.h"
#include "supervise/front.h"
#include "supervise/outcome.h"

static struct lock *open_lock(
	const struct options *options, const struct lock_request *request, struct failure *failure)
{
	if (options->also_count == 0)
		return lock_open(options->server, request, failure);
	return lock_set_open(options->server, request, options->also, options->also_count, failure);
}

/* Looks COMMAND up. */
static bool find_program(
	const struct options *options, struct program *program, struct failure *failure)
{
	char *word[] = {(char *)options->shell_string, NULL};
	struct failure unheard;

	if (hint_swapped(options) && !program_find(program, word, &unheard))
		message_say(MESSAGE_WARNING, "did you mean dlock %s -c '%s'?",
			options->shell_string, options->name);
	if (program_find(program, options->argv, failure))
		return true;
	hint_not_found(options, failure);
	return false;
}

/* From the first look at COMMAND to its end. */
static void run(const struct options *options, struct outcome *outcome)
{
	/* Large: on the stack each page of theirs would be probed, which costs a fault. */
	static struct nesting nesting;
	static struct program program;
	struct lock_request request;
	static struct caller_state caller_state;
	struct front_task task;
	struct failure failure;
	struct lease *lease = take_lock_begin(options, &caller_state, &nesting, &failure);
	struct lock *lock = NULL;

	if (lease && surroundings_suffice(&caller_state, &failure) &&
		find_program(options, &program, &failure)) {
		take_lock_prepare(options, &nesting, lease, &request);
		lock = open_lock(options, &request, &failure);
	}
	if (!lock) {
		outcome_fail(outcome, &failure);
		return;
	}
	take_lock_announce(options->server);
	task = take_lock_task(options, lock, lease, &nesting, &request, &caller_state);
	task.terms.max_run = options->max_run;
	task.ward = (struct ward){&command_ward, &program};
	task.close_early = options->close;
	task.also = options->also;
	task.also_count = options->also_count;
	front_run(&task, outcome);
	if (task.lock)
		lock_close(task.lock);
	if (outcome->kind == OUTCOME_UNREACHABLE && options->if_unreachable == IF_UNREACHABLE_SKIP)
		outcome->kind = OUTCOME_SKIPPED;
}

int cmd_run(const struct options *options)
{
	static struct outcome outcome;
	struct failure failure;
	struct report report;

	if (!report_open(&report, options, &failure))
		return message_failure(&failure);
	run(options, &outcome);
	return take_lock_end(&outcome, options, &report);
}
