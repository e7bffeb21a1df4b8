/* dlock check: is the server fit to hold locks? */
#include "commands.h"

#include <signal.h>
#include <string.h>

#include "failure.h"
#include "findings.h"
#include "lock.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "password.h"
#include "server.h"

static bool examine(
	struct findings *findings, const struct options *options, struct failure *failure)
{
	struct lock_request request = {.prefix = options->prefix,
		.ttl_ms = options->ttl / NANOS_PER_MS,
		.settle_ms = options->settle / NANOS_PER_MS};
	/* hiredis sends without MSG_NOSIGNAL. */
	void (*on_pipe)(int) = signal(SIGPIPE, SIG_IGN);
	bool done;

	party_self(&request.self, "dlock check");
	done = lock_examine(options->server, &request, findings_take, findings, failure);
	signal(SIGPIPE, on_pipe);
	return done &&
	       (!findings->out_of_memory || failure_set(failure, EXIT_SYSTEM, "out of memory"));
}

static bool show(
	const struct findings *findings, const struct options *options, struct failure *failure)
{
	if (!message_shows(MESSAGE_ERROR))
		return true;
	if (!options->json)
		findings_table(findings, !message_shows(MESSAGE_WARNING));
	else if (!findings_json(findings, options->server, failure))
		return false;
	return output_finish(failure);
}

/* The same line as from a run that this would stop, where there is one. */
static void say_worst(const struct lock_finding *worst)
{
	if (worst == NULL)
		return;
	if (strstr(worst->found, worst->server) != NULL)
		message_say(MESSAGE_ERROR, "%s", worst->found);
	else
		message_say(MESSAGE_ERROR, "%s: %s", worst->server, worst->found);
}

int cmd_check(const struct options *options)
{
	struct findings findings = {0};
	struct failure failure;
	int code;

	password_guard(options->server);
	message_say(MESSAGE_INFO, "looking at %s", options->server->text);
	if (examine(&findings, options, &failure) && show(&findings, options, &failure)) {
		code = (int)findings_code(&findings);
		say_worst(findings_worst(&findings));
	} else {
		code = (int)failure.code;
		message_say(MESSAGE_ERROR, "%s", failure.text);
	}
	findings_free(&findings);
	return code;
}
