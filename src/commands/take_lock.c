#include "commands/take_lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "base/message.h"
#include "cli/command.h"
#include "cli/options.h"
#include "commands/report.h"
#include "lock/holder.h"
#include "lock/lock_list.h"
#include "lock/lock_set.h"
#include "net/server.h"
#include "process/exit_status.h"
#include "supervise/detached.h"
#include "supervise/front.h"
#include "supervise/notify.h"
#include "supervise/outcome.h"
#include "supervise/wait_line.h"

#define LOOK_LIMIT (80 * NANOS_PER_MS) /* -w is kept to 100 ms or so */

static struct lock_request request_of(const struct options *options, struct taking *taking)
{
	struct lease *lease = taking->task.lease;

	return (struct lock_request){
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
		.held = taking->nesting.held,
		.token_page = lease->token,
		.self = &lease->owner,
	};
}

static struct task task_of(
	const struct options *options, struct taking *taking, struct lease *lease)
{
	return (struct task){
		.lease = lease,
		.nesting = &taking->nesting,
		.request = &taking->request,
		.server = options->server,
		.place = options->server->text,
		.caller_state = &taking->caller_state,
		.name = options->name,
		.started = options->started,
		.wait = options->wait,
		.stop_signal = options->stop_signal,
		.warn_when_lost = options->on_lost == ON_LOST_WARN,
		.notify_ready = options->notify_ready,
	};
}

/* Prepares this process for it: signals, secrets, the dlocks around it. */
static bool begin(const struct options *options, struct taking *taking, struct failure *failure)
{
	struct lease *lease;

	caller_state_take(&taking->caller_state);
	lease = lease_open(); /* by a file, perhaps: no SIGXFSZ ends us by now */
	if (options->server->password)
		caller_state_keep_secret(&taking->caller_state);
	nesting_open(&taking->nesting);
	if (!lease)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	lease->terms = (struct lease_terms){
		.ttl = options->ttl, .grace = options->grace, .at_least = options->at_least};
	taking->task = task_of(options, taking, lease);
	taking->request = request_of(options, taking);
	owner_self(&lease->owner, options->label ? options->label : options->command->word);
	return true;
}

static void announce(const struct server *server)
{
	message_say(MESSAGE_INFO, "asking %s", server->text);
	if (server->remark)
		message_say(MESSAGE_WARNING, "%s", server->remark);
}

void take_lock(const struct options *options, take_lock_prepare prepare, struct outcome *outcome)
{
	/* Large: on the stack each page of it would be probed, which costs a fault. */
	static struct taking taking;
	struct task *task = &taking.task;
	struct failure failure;

	if (begin(options, &taking, &failure) && prepare(options, &taking, &failure))
		task->lock = task->also_count == 0
				     ? lock_open(options->server, task->request, &failure)
				     : lock_set_open(options->server, task->request, task->also,
					       task->also_count, &failure);
	if (!task->lock) {
		outcome_fail(outcome, &failure);
		return;
	}
	announce(options->server);
	if (!task->ward.ops)
		detached_acquire(task, outcome);
	else
		front_run(task, outcome);
	if (task->lock)
		lock_close(task->lock);
}

/* ---- the words in the end ---- */

enum last_look {
	LAST_LOOK_HELD,    /* the answer is up to date */
	LAST_LOOK_FREE,    /* nobody has the lock, or waits for it */
	LAST_LOOK_UNHEARD, /* there was no answer in time, and nothing was changed */
};

struct look {
	const char *name;
	struct lock_answer *answer;
	bool seen;
};

/* If there are sharers: the one that was named before, if it is still among them. */
static const struct lock_view_owner *find_holder(
	const struct lock_view *view, const struct owner *before)
{
	for (size_t i = 0; i < view->holder_count; i++)
		if (owner_is_same(&view->holders[i].owner, before))
			return &view->holders[i];
	return view->holder_count > 0 ? &view->holders[0] : NULL;
}

static void take(const struct lock_view *view, void *context)
{
	struct look *look = context;
	struct lock_answer *answer = look->answer;
	const struct lock_view_owner *holder = find_holder(view, &answer->holder);

	if (strcmp(view->name, look->name) != 0)
		return;
	look->seen = true;
	answer->known = holder != NULL;
	answer->free_in_ms = view->ttl_ms;
	if (!view->foreign)
		answer->foreign = NULL;
	else if (!answer->foreign)
		answer->foreign = "another client";
	if (holder) {
		answer->holder = holder->owner;
		answer->held_ms = holder->ms;
	} else {
		answer->free_in_ms = view->foreign ? view->ttl_ms : 0;
	}
}

/* Asks the server once more, by a connection of its own, and brings what LOCK_BUSY said of the
 * holder up to date. No longer than nobody notices. */
static enum last_look last_look(const struct options *options, struct lock_answer *answer)
{
	struct look look = {answer->name ? answer->name : options->name, answer, false};
	const struct lock_query query = {
		options->prefix, (char *const[]){(char *)look.name}, 1, false, false, true};
	struct failure unheard;
	struct lock_lister *lister = lock_list_open(options->server, &query, &unheard);
	struct deadline limit = {.until = clock_now() + LOOK_LIMIT, .cancel_fd = -1};
	bool done = lister && lock_list_look(lister, take, &look, limit, &unheard);

	if (lister)
		lock_list_close(lister);
	if (!done)
		return LAST_LOOK_UNHEARD;
	return look.seen ? LAST_LOOK_HELD : LAST_LOOK_FREE;
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
