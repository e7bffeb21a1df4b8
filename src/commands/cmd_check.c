/* dlock check: is the server fit to hold locks? */
#include "commands/commands.h"

#include <string.h>

#include "base/failure.h"
#include "base/message.h"
#include "base/output.h"
#include "cli/options.h"
#include "lock/lock.h"
#include "lock/lock_check.h"
#include "net/server.h"
#include "show/check_report.h"

static bool examine(
	struct check_report *findings, const struct options *options, struct failure *failure)
{
	struct owner self;
	struct lock_request request = {.prefix = options->prefix,
		.ttl_ms = options->ttl / NANOS_PER_MS,
		.settle_ms = options->settle / NANOS_PER_MS,
		.settle_asked = options->settle_given,
		.self = &self};
	bool done;

	owner_self(&self, "dlock check");
	done = lock_check_server(options->server, &request, check_report_take, findings, failure);
	return done &&
	       (!findings->out_of_memory || failure_set(failure, EXIT_SYSTEM, "out of memory"));
}

static bool show(
	const struct check_report *findings, const struct options *options, struct failure *failure)
{
	if (!message_shows(MESSAGE_ERROR))
		return true;
	if (!options->json)
		check_report_table(findings, !message_shows(MESSAGE_WARNING));
	else if (!check_report_json(findings, options->server, failure))
		return false;
	return output_finish(failure);
}

/* The same line as from a run that this would stop, if there is one. */
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
	struct check_report findings = {0};
	struct failure failure;
	int code;

	options_guard_password(options);
	message_say(MESSAGE_INFO, "looking at %s", options->server->text);
	if (examine(&findings, options, &failure) && show(&findings, options, &failure)) {
		code = (int)check_report_code(&findings);
		say_worst(check_report_worst(&findings));
	} else {
		code = message_failure(&failure);
	}
	check_report_free(&findings);
	return code;
}
