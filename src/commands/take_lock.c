#include "commands/take_lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/message.h"
#include "cli/options.h"
#include "commands/last_look.h"
#include "commands/report.h"
#include "lock/holder.h"
#include "lock/lock.h"
#include "lock/nesting.h"
#include "net/server.h"
#include "process/caller_state.h"
#include "process/exit_status.h"
#include "supervise/notify.h"
#include "supervise/outcome.h"
#include "supervise/wait_line.h"

struct lease *take_lock_begin(const struct options *options, struct caller_state *caller_state,
	struct nesting *nesting, struct failure *failure)
{
	struct lease *lease;

	caller_state_take(caller_state);
	lease = lease_open(); /* by a file, perhaps: no SIGXFSZ ends us by now */
	if (options->server->password)
		caller_state_keep_secret(caller_state);
	nesting_open(nesting);
	if (!lease)
		failure_set(failure, EXIT_SYSTEM, "out of memory");
	return lease;
}

void take_lock_prepare(const struct options *options, const struct nesting *nesting,
	struct lease *lease, struct lock_request *request)
{
	*request = (struct lock_request){
		.name = options->name,
		.prefix = options->prefix,
		.mode = options->sharers == OPTIONS_EXCLUSIVE ? LOCK_EXCLUSIVE
			: options->sharers == OPTIONS_SHARED  ? LOCK_SHARED
							      : LOCK_PERMITS,
		.permits = options->sharers,
		.ttl_ms = options->ttl / NANOS_PER_MS,
		.ttl_named = options->ttl_given,
		.at_least_ms = options->at_least / NANOS_PER_MS,
		.cooldown_ms = options->cooldown / NANOS_PER_MS,
		.once = options->once,
		.once_for_ms = options->once_for / NANOS_PER_MS,
		.settle_ms = options->settle / NANOS_PER_MS,
		.settle_asked = options->settle_given,
		.settle_named = options->settle_named,
		.queues = options->wait != 0,
		.replicas = options->replicas,
		.replicas_ms = options->replicas_in / NANOS_PER_MS,
		.priority = options->priority,
		.watched = wait_line_is_wanted() || notify_is_wanted(options->notify_ready),
		.held = nesting->held,
		.token_page = lease->token,
		.self = &lease->owner,
	};
	owner_self(&lease->owner, options->label);
}

struct front_task take_lock_task(const struct options *options, struct lock *lock,
	struct lease *lease, struct nesting *nesting, const struct lock_request *request,
	struct caller_state *caller_state)
{
	return (struct front_task){
		.lock = lock,
		.lease = lease,
		.nesting = nesting,
		.request = request,
		.server = options->server,
		.place = options->server->text,
		.terms = {.ttl = options->ttl,
			.grace = options->grace,
			.at_least = options->at_least},
		.caller_state = caller_state,
		.name = options->name,
		.started = options->started,
		.wait = options->wait,
		.stop_signal = options->stop_signal,
		.warn_when_lost = options->on_lost == ON_LOST_WARN,
		.notify_ready = options->notify_ready,
	};
}

void take_lock_announce(const struct server *server)
{
	message_say(MESSAGE_INFO, "asking %s", server->text);
	if (server->remark)
		message_say(MESSAGE_WARNING, "%s", server->remark);
}

/* The answer from when the wait began is old by now. Returns text. */
static const char *describe_now(
	const struct outcome *outcome, const struct options *options, char text[static HOLDER_TEXT])
{
	struct lock_answer answer = outcome->answer;
	nanos age = clock_now() - outcome->answered_at;
	char span[DURATION_TEXT];

	if (answer.settling_ms > 0)
		return holder_describe(&answer, age, text);
	switch (last_look(options, &answer)) {
	case LAST_LOOK_HELD:
		return holder_describe(&answer, 0, text);
	case LAST_LOOK_FREE:
		return "it has come free just now";
	default:
		holder_describe(&answer, 0, text);
		if (age >= NANOS_PER_SEC)
			snprintf(text + strlen(text), HOLDER_TEXT - strlen(text), ", as of %s ago",
				duration_format(age, span));
		return text;
	}
}

static void say_timeout(const struct outcome *outcome, const struct options *options)
{
	char waited[DURATION_TEXT], text[HOLDER_TEXT];

	if (message_shows(MESSAGE_WARNING))
		message_say(MESSAGE_WARNING, "busy after %s: %s",
			duration_format_given(options->wait, waited),
			describe_now(outcome, options, text));
}

static void say_success(const struct lock_run *done)
{
	char ended[DURATION_TEXT], began[DURATION_TEXT], more[DURATION_TEXT + 96] = "";

	if (done->ended_us != 0)
		snprintf(more, sizeof(more), " (begun %s ago, on %s)",
			duration_format(done->began_ms * NANOS_PER_MS, began), done->owner.host);
	message_say(MESSAGE_INFO, "not run: it succeeded %s ago%s",
		duration_format(done->ago_ms * NANOS_PER_MS, ended), more);
}

static void say_grant(const struct outcome *outcome, bool ended)
{
	char waited[DURATION_TEXT], held[DURATION_TEXT];

	if (message_shows(MESSAGE_INFO))
		message_say(MESSAGE_INFO, "waited %s%s%s, fencing token %" PRIu64,
			duration_format(outcome->waited, waited), ended ? ", held for " : "",
			ended ? duration_format(outcome->held, held) : "", outcome->answer.fence);
}

static void say_end(const struct outcome *outcome, const struct options *options)
{
	char text[HOLDER_TEXT];

	switch (outcome->kind) {
	case OUTCOME_BUSY:
		message_say(
			MESSAGE_WARNING, "busy: %s", holder_describe(&outcome->answer, 0, text));
		break;
	case OUTCOME_TIMEOUT:
		say_timeout(outcome, options);
		break;
	case OUTCOME_ALREADY:
		say_success(&outcome->answer.done);
		break;
	case OUTCOME_SKIPPED:
		message_say(MESSAGE_WARNING, "not run (--if-unreachable skip): %s",
			outcome->failure.text);
		break;
	case OUTCOME_RAN:
	case OUTCOME_ACQUIRED:
	case OUTCOME_HELD:
		say_grant(outcome, outcome->kind == OUTCOME_RAN);
		break;
	default: /* all else was said when it happened */
		if (outcome->failure.code != EXIT_DONE)
			message_say(MESSAGE_ERROR, "%s", outcome->failure.text);
		break;
	}
}

int take_lock_end(
	const struct outcome *outcome, const struct options *options, struct report *report)
{
	say_end(outcome, options);
	if (report)
		report_write(report, outcome);
	if (outcome->end_signal != 0)
		exit_status_by_signal(outcome->end_signal);
	return outcome_exit(outcome, options->conflict_exit);
}
