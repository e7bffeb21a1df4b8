/* dlock status: the holders and waiters, and for how long. */
#include "commands/commands.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/message.h"
#include "base/output.h"
#include "cli/options.h"
#include "commands/status_live.h"
#include "lock/lock_list.h"
#include "lock/name.h"
#include "net/server.h"
#include "lock/service.h"
#include "show/openmetrics.h"
#include "show/status_json.h"
#include "show/table.h"

#define STATUS_PATIENCE (5 * NANOS_PER_SEC)

static bool take_list(
	struct lock_list *views, const struct options *options, struct failure *failure)
{
	struct deadline deadline = deadline_alone(clock_after(options->started, STATUS_PATIENCE));
	struct lock_query query = {.prefix = options->prefix,
		.patterns = options->operands,
		.pattern_count = options->operand_count,
		.idle_too = options->openmetrics,
		.named_too = true};
	struct lock_lister *lister = lock_list_open(options->server, &query, failure);
	bool done = lister && lock_list_look(lister, lock_list_take, views, deadline, failure);

	if (lister)
		lock_list_close(lister);
	return done && lock_list_sort(views, failure);
}

/* Whether what is asked is: is this one lock held? */
static bool asks_for_one(const struct options *options)
{
	return options->operand_count == 1 && !name_is_glob(options->operands[0]);
}

static bool is_held(const struct lock_list *views)
{
	return views->count > 0 && (views->list[0].foreign || views->list[0].holder_count > 0);
}

static void say_dissent(const struct lock_list *views)
{
	for (size_t i = 0; i < views->count; i++)
		if (views->list[i].dissent != NULL)
			message_say(MESSAGE_WARNING, "%s: %s", views->list[i].name,
				views->list[i].dissent);
}

/* As wide as the terminal, if it is one. */
static void show_table(const struct lock_list *views, const struct options *options)
{
	struct winsize size;
	struct table_form form = {.line_start = ""};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		form.columns = size.ws_col;
	if (views->count == 0 && isatty(STDOUT_FILENO)) {
		printf("no lock is held or waited for\n");
		return;
	}
	table_print(views->list, views->count, &form);
	if (asks_for_one(options) && views->count > 0) {
		char text[TABLE_RUNS_TEXT];

		if (*table_describe_runs(&views->list[0], text))
			puts(text);
	}
}

static bool show(
	const struct lock_list *views, const struct options *options, struct failure *failure)
{
	if (asks_for_one(options) && !message_shows(MESSAGE_WARNING))
		return true;
	if (options->openmetrics)
		openmetrics_print(views->list, views->count);
	else if (!options->json)
		show_table(views, options);
	else if (!status_json_print(views->list, views->count, failure))
		return false;
	return output_finish(failure);
}

/* If it is not so, it says in one line what is known. */
static int judge(const struct lock_list *views, const struct options *options)
{
	const struct lock_view *view = views->count > 0 ? &views->list[0] : NULL;
	char text[TABLE_RUNS_TEXT] = "";

	if (view && view->last_success.ended_us != 0 &&
		view->last_success.ago_ms <= options->succeeded_within / NANOS_PER_MS)
		return EXIT_DONE;
	if (view)
		table_describe_runs(view, text);
	message_say(MESSAGE_WARNING, "%s: %s", options->operands[0],
		*text ? text : "no run is on record");
	return EXIT_BUSY;
}

/* Shows what was asked for; the exit code. */
static int answer(const struct lock_list *views, const struct options *options)
{
	struct failure failure;

	if (options->succeeded_within > 0)
		return judge(views, options);
	if (!show(views, options, &failure))
		return message_failure(&failure);
	return asks_for_one(options) && !is_held(views) ? EXIT_BUSY : EXIT_DONE;
}

/* Whether the service keeps what the options ask for. */
static bool can_answer(const struct options *options, struct failure *failure)
{
	return options->succeeded_within == 0 ||
	       lock_service_can(
		       options->server, &(struct lock_request){0}, LOCK_CAN_RECORD, failure);
}

int cmd_status(const struct options *options)
{
	struct lock_list views = {0};
	struct failure failure;
	int code;

	options_guard_password(options);
	if (options->watch)
		return status_watch(options);
	message_say(MESSAGE_INFO, "asking %s", options->server->text);
	if (can_answer(options, &failure) && take_list(&views, options, &failure)) {
		code = answer(&views, options);
		say_dissent(&views);
	} else {
		code = message_failure(&failure);
	}
	lock_list_free(&views);
	return code;
}
