/* dlock [run] NAME COMMAND: COMMAND under the lock NAME. */
#include "commands.h"

#include <inttypes.h>
#include <string.h>

#include "ancestry.h"
#include "duration.h"
#include "ending.h"
#include "front.h"
#include "holder.h"
#include "inherited.h"
#include "lock.h"
#include "lock_set.h"
#include "message.h"
#include "options.h"
#include "outcome.h"
#include "program.h"
#include "report.h"
#include "server.h"
#include "wait_line.h"

static void prepare(const struct options *options, const struct ancestry *ancestry,
	struct lock_request *request)
{
	*request = (struct lock_request){
		.name = options->name,
		.prefix = options->prefix,
		.mode = options->sharers == OPTIONS_EXCLUSIVE ? LOCK_EXCLUSIVE
			: options->sharers == OPTIONS_SHARED  ? LOCK_SHARED
							      : LOCK_PERMITS,
		.permits = options->sharers,
		.ttl_ms = options->ttl / NANOS_PER_MS,
		.at_least_ms = options->at_least / NANOS_PER_MS,
		.cooldown_ms = options->cooldown / NANOS_PER_MS,
		.once = options->once,
		.once_for_ms = options->once_for / NANOS_PER_MS,
		.settle_ms = options->settle / NANOS_PER_MS,
		.queues = options->wait != 0,
		.replicas = options->replicas,
		.replicas_ms = options->replicas_in / NANOS_PER_MS,
		.priority = options->priority,
		.watched = wait_line_is_wanted(),
		.outer = ancestry->tokens,
		.held = ancestry->held,
	};
	party_self(&request->self, options->label);
}

static struct lock *open_lock(
	const struct options *options, const struct lock_request *request, struct failure *failure)
{
	if (options->also_count == 0)
		return lock_open(options->server, request, failure);
	return lock_set_open(options->server, request, options->also, options->also_count, failure);
}

static void say_holder(const struct lock_answer *answer, const char *what)
{
	char text[HOLDER_TEXT];

	message_say(MESSAGE_WARNING, "%s: %s", what, holder_describe(answer, 0, text));
}

static void say_run(const struct outcome *outcome)
{
	char waited[DURATION_TEXT], held[DURATION_TEXT];

	if (message_shows(MESSAGE_INFO))
		message_say(MESSAGE_INFO, "waited %s, held for %s, fencing token %" PRIu64,
			duration_format(outcome->waited, waited),
			duration_format(outcome->held, held), outcome->answer.fence);
}

static void say_outcome(const struct outcome *outcome, const struct options *options)
{
	char waited[DURATION_TEXT], text[DURATION_TEXT + 16];

	switch (outcome->kind) {
	case OUTCOME_BUSY:
		say_holder(&outcome->answer, "busy");
		break;
	case OUTCOME_TIMEOUT:
		strcpy(text, "busy after ");
		strcat(text, duration_format(options->wait, waited));
		say_holder(&outcome->answer, text);
		break;
	case OUTCOME_ALREADY:
		message_say(MESSAGE_INFO, "not run: it succeeded %s ago",
			duration_format(outcome->answer.done_ms * NANOS_PER_MS, waited));
		break;
	case OUTCOME_SKIPPED:
		message_say(MESSAGE_WARNING, "not run (--if-unreachable skip): %s",
			outcome->failure.text);
		break;
	case OUTCOME_RAN:
		say_run(outcome);
		break;
	default: /* all else was said when it happened */
		if (outcome->failure.code != EXIT_DONE)
			message_say(MESSAGE_ERROR, "%s", outcome->failure.text);
		break;
	}
}

/* From the first look at COMMAND to its end. */
static void run(const struct options *options, struct outcome *outcome)
{
	struct ancestry ancestry;
	struct lock_request request;
	struct inherited inherited;
	struct program program;
	struct failure failure;
	struct lock *lock;

	inherited_take(&inherited);
	ancestry_open(&ancestry);
	prepare(options, &ancestry, &request);
	lock = open_lock(options, &request, &failure); /* connects meanwhile, where it can */
	if (!lock || !program_find(&program, options->argv, &failure)) {
		outcome_fail(outcome, &failure);
		return;
	}
	message_say(MESSAGE_INFO, "asking %s", options->server->text);

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
	say_outcome(&outcome, options);
	report_write(&report, &outcome);
	if (outcome.end_signal != 0)
		ending_by_signal(outcome.end_signal);
	return outcome_exit(&outcome, options->conflict_exit);
}
