/* dlock [run] NAME COMMAND: COMMAND under the lock NAME. */
#include "commands/commands.h"

#include "base/message.h"
#include "cli/hint.h"
#include "cli/options.h"
#include "commands/report.h"
#include "commands/take_lock.h"
#include "process/program.h"
#include "process/surroundings.h"
#include "supervise/command_ward.h"
#include "supervise/outcome.h"

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

static bool prepare(const struct options *options, struct taking *taking, struct failure *failure)
{
	static struct program program; /* large */
	struct task *task = &taking->task;

	if (!surroundings_suffice(&taking->caller_state, failure) ||
		!find_program(options, &program, failure))
		return false;
	task->lease->terms.max_run = options->max_run;
	task->ward = (struct ward){&command_ward, &program, -1};
	task->close_early = options->close;
	task->also = options->also;
	task->also_count = options->also_count;
	return true;
}

int cmd_run(const struct options *options)
{
	static struct outcome outcome;
	struct failure failure;
	struct report report;

	if (!report_open(&report, options, &failure))
		return message_failure(&failure);
	take_lock(options, prepare, &outcome);
	if (outcome.kind == OUTCOME_UNREACHABLE && options->if_unreachable == IF_UNREACHABLE_SKIP)
		outcome.kind = OUTCOME_SKIPPED;
	return take_lock_end(&outcome, options, &report);
}
