/* dlock [run] NAME COMMAND: COMMAND under the lock NAME. */
#include "commands.h"

#include "ancestry.h"
#include "ending.h"
#include "front.h"
#include "inherited.h"
#include "lock.h"
#include "lock_set.h"
#include "message.h"
#include "options.h"
#include "outcome.h"
#include "program.h"
#include "report.h"
#include "server.h"
#include "taking.h"

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
	static struct ancestry ancestry;
	static struct program program;
	struct lock_request request;
	struct inherited inherited;
	struct failure failure;
	struct lock *lock;

	inherited_take(&inherited);
	if (options->server->password)
		inherited_keep_secret(&inherited);
	ancestry_open(&ancestry);
	taking_prepare(options, &ancestry, &request);
	lock = open_lock(options, &request, &failure); /* connects meanwhile, where it can */
	if (!lock || !program_find(&program, options->argv, &failure)) {
		outcome_fail(outcome, &failure);
		if (lock)
			lock_close(lock);
		return;
	}
	taking_announce(options->server);

	front_run(
		&(struct front_task){
			.lock = lock,
			.ancestry = &ancestry,
			.self = &request.self,
			.terms = {.ttl = options->ttl,
				.grace = options->grace,
				.at_least = options->at_least,
				.max_run = options->max_run},
			.program = &program,
			.inherited = &inherited,
			.name = options->name,
			.started = options->started,
			.wait = options->wait,
			.stop_signal = options->stop_signal,
			.close_early = options->close,
			.warn_when_lost = options->on_lost == ON_LOST_WARN,
		},
		outcome);
	lock_close(lock);
	if (outcome->kind == OUTCOME_UNREACHABLE && options->if_unreachable == IF_UNREACHABLE_SKIP)
		outcome->kind = OUTCOME_SKIPPED;
}

int cmd_run(const struct options *options)
{
	static struct outcome outcome;
	struct failure failure;
	struct report report;

	if (!report_open(&report, options, &failure)) {
		message_say(MESSAGE_ERROR, "%s", failure.text);
		return (int)failure.code;
	}
	run(options, &outcome);
	taking_say(&outcome, options);
	report_write(&report, &outcome);
	if (outcome.end_signal != 0)
		ending_by_signal(outcome.end_signal);
	return outcome_exit(&outcome, options->conflict_exit);
}
