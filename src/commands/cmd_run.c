/* dlock [run] NAME COMMAND: COMMAND under the lock NAME. */
#include "commands/commands.h"

#include "base/message.h"
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
#include "supervise/outcome.h"

static struct lock *open_lock(
	const struct options *options, const struct lock_request *request, struct failure *failure)
{
	if (options->also_count == 0)
		return lock_open(options->server, request, failure);
	return lock_set_open(options->server, request, options->also, options->also_count, failure);
}

/* From the first look at COMMAND to its end. */
static void run(const struct options *options, struct outcome *outcome)
{
	/* Large: on the stack each page of theirs would be probed, which costs a fault. */
	static struct nesting nesting;
	static struct program program;
	struct lock_request request;
	struct caller_state caller_state;
	struct front_task task;
	struct failure failure;
	struct lock *lock;

	take_lock_begin(options, &caller_state, &nesting);
	take_lock_prepare(options, &nesting, &request);
	lock = open_lock(options, &request, &failure); /* connects meanwhile, if it can */
	if (!lock || !surroundings_suffice(&caller_state, &failure) ||
		!program_find(&program, options->argv, &failure)) {
		outcome_fail(outcome, &failure);
		if (lock)
			lock_close(lock);
		return;
	}
	take_lock_announce(options->server);
	task = take_lock_task(options, lock, &nesting, &request, &caller_state);
	task.terms.max_run = options->max_run;
	task.ward = (struct ward){&command_ward, &program};
	task.close_early = options->close;
	front_run(&task, outcome);
	lock_close(lock);
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
