/* dlock status: who holds, who waits, for how long. */
#include "commands.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "failure.h"
#include "lock.h"
#include "message.h"
#include "openmetrics.h"
#include "operands.h"
#include "options.h"
#include "output.h"
#include "password.h"
#include "server.h"
#include "status_watch.h"
#include "table.h"
#include "views.h"

#define STATUS_PATIENCE (5 * NANOS_PER_SEC)

static bool take_survey(struct views *views, const struct options *options, struct failure *failure)
{
	struct patience patience = {
		.until = clock_after(options->started, STATUS_PATIENCE), .cancel_fd = -1};
	/* hiredis sends without MSG_NOSIGNAL; a reader of our table that goes away is another
	 * matter. */
	void (*on_pipe)(int) = signal(SIGPIPE, SIG_IGN);
	bool done = lock_survey(options->server, options->prefix, options->operands,
		options->operand_count, options->openmetrics, views_take, views, patience, failure);

	signal(SIGPIPE, on_pipe);
	return done && views_sort(views, failure);
}

/* Whether what is asked is: is this one lock held? */
static bool asks_for_one(const struct options *options)
{
	return options->operand_count == 1 && !operands_is_glob(options->operands[0]);
}

static bool is_held(const struct views *views)
{
	return views->count > 0 && (views->list[0].foreign || views->list[0].holder_count > 0);
}

static void say_dissent(const struct views *views)
{
	for (size_t i = 0; i < views->count; i++)
		if (views->list[i].dissent != NULL)
			message_say(MESSAGE_WARNING, "%s: %s", views->list[i].name,
				views->list[i].dissent);
}

/* As wide as the terminal, if it is one. */
static void show_table(const struct views *views)
{
	struct winsize size;
	struct table_form form = {.line_start = ""};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		form.columns = size.ws_col;
	table_print(views->list, views->count, &form);
}

static bool show(const struct views *views, const struct options *options, struct failure *failure)
{
	if (asks_for_one(options) && !message_shows(MESSAGE_WARNING))
		return true;
	if (options->openmetrics)
		openmetrics_print(views->list, views->count);
	else if (!options->json)
		show_table(views);
	else if (!output_json(views->list, views->count, failure))
		return false;
	return output_finish(failure);
}

int cmd_status(const struct options *options)
{
	struct views views = {0};
	struct failure failure;
	int code;

	password_guard(options->server);
	if (options->watch)
		return status_watch(options);
	message_say(MESSAGE_INFO, "asking %s", options->server->text);
	if (take_survey(&views, options, &failure) && show(&views, options, &failure)) {
		code = asks_for_one(options) && !is_held(&views) ? EXIT_BUSY : EXIT_DONE;
		say_dissent(&views);
	} else {
		code = (int)failure.code;
		message_say(MESSAGE_ERROR, "%s", failure.text);
	}
	views_free(&views);
	return code;
}
