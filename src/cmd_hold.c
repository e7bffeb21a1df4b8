/* dlock hold NAME: the lock NAME for the rest of a shell script. */
#include "commands.h"

#include "ancestry.h"
#include "ending.h"
#include "front.h"
#include "hold.h"
#include "inherited.h"
#include "lock.h"
#include "message.h"
#include "options.h"
#include "outcome.h"
#include "process.h"
#include "server.h"
#include "taking.h"

static bool find_caller(
	const struct options *options, struct caller *caller, struct failure *failure)
{
	return options->pid > 0 ? caller_open(caller, options->pid, failure)
				: caller_find(caller, failure);
}

/* The caller is who holds it: what runs below him finds itself inside. Of the options only those
 * about the lock count, also where a configuration has others. */
static void prepare(const struct options *options, const struct ancestry *ancestry,
	const struct caller *caller, struct lock_request *request)
{
	static char program[PROCESS_PROGRAM];
	struct options own = *options;

	process_program(caller->pid, program);
	if (!own.label)
		own.label = program;
	own.cooldown = 0;
	own.once = NULL;
	taking_prepare(&own, ancestry, request);
	request->self.pid = caller->pid;
	request->self.start = caller->start;
}

static void hold(const struct options *options, struct outcome *outcome)
{
	struct inherited inherited;
	struct hold hold = {.inherited = &inherited,
		.prefix = options->prefix,
		.name = options->name,
		.print = options->print};
	struct ancestry ancestry;
	struct lock_request request;
	struct failure failure;
	struct lock *lock = NULL;

	inherited_take(&inherited);
	if (options->server->password)
		inherited_keep_secret(&inherited);
	ancestry_open(&ancestry);
	if (find_caller(options, &hold.caller, &failure)) {
		prepare(options, &ancestry, &hold.caller, &request);
		lock = lock_open(options->server, &request, &failure);
	}
	if (!lock) {
		outcome_fail(outcome, &failure);
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
				.at_least = options->at_least},
			.inherited = &inherited,
			.hold = &hold,
			.name = options->name,
			.started = options->started,
			.wait = options->wait,
			.stop_signal = options->stop_signal,
			.warn_when_lost = options->on_lost == ON_LOST_WARN,
		},
		outcome);
	lock_close(lock);
}

int cmd_hold(const struct options *options)
{
	static struct outcome outcome;

	if (options->print && !taking_can_print()) {
		message_say(MESSAGE_ERROR, "--print: standard output is not open for writing");
		return EXIT_SYSTEM;
	}
	hold(options, &outcome);
	taking_say(&outcome, options);
	if (outcome.end_signal != 0)
		ending_by_signal(outcome.end_signal);
	return outcome_exit(&outcome, options->conflict_exit);
}
