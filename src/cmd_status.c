/* dlock status: who holds, who waits, for how long. */
#include "commands.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "failure.h"
#include "lock.h"
#include "message.h"
#include "openmetrics.h"
#include "operands.h"
#include "options.h"
#include "output.h"
#include "server.h"

#define STATUS_PATIENCE (5 * NANOS_PER_SEC)

/* What the server told: each view with all that it points to is a copy of ours. */
struct survey {
	struct lock_view *views; /* owned */
	size_t count;
	bool out_of_memory;
};

static void free_view(struct lock_view *view)
{
	free((char *)view->name);
	free((char *)view->key);
	free((struct lock_view_party *)view->holders);
	free((struct lock_view_party *)view->waiters);
	free((char *)view->dissent);
}

static struct lock_view_party *copy_parties(const struct lock_view_party *parties, size_t count)
{
	struct lock_view_party *copy = calloc(count == 0 ? 1 : count, sizeof(*copy));

	if (copy != NULL && count > 0)
		memcpy(copy, parties, count * sizeof(*copy));
	return copy;
}

/* For lock_survey(): the view lives only as long as the call. */
static void take_view(const struct lock_view *view, void *context)
{
	struct survey *survey = context;
	struct lock_view *views = reallocarray(survey->views, survey->count + 1, sizeof(*views));
	struct lock_view copy = *view;

	if (views == NULL) {
		survey->out_of_memory = true;
		return;
	}
	survey->views = views;
	copy.name = strdup(view->name);
	copy.key = strdup(view->key);
	copy.holders = copy_parties(view->holders, view->holder_count);
	copy.waiters = copy_parties(view->waiters, view->waiter_count);
	copy.dissent = view->dissent == NULL ? NULL : strdup(view->dissent);
	if ((view->dissent != NULL && copy.dissent == NULL) || copy.name == NULL || copy.key == NULL || copy.holders == NULL || copy.waiters == NULL) {
		survey->out_of_memory = true;
		free_view(&copy);
		return;
	}
	views[survey->count++] = copy;
}

static int compare_names(const void *one, const void *other)
{
	return strcmp(
		((const struct lock_view *)one)->name, ((const struct lock_view *)other)->name);
}

static bool take_survey(
	struct survey *survey, const struct options *options, struct failure *failure)
{
	struct patience patience = {
		.until = clock_after(options->started, STATUS_PATIENCE), .cancel_fd = -1};
	/* hiredis sends without MSG_NOSIGNAL; a reader of our table that goes away is another
	 * matter. */
	void (*on_pipe)(int) = signal(SIGPIPE, SIG_IGN);
	bool done = lock_survey(options->server, options->prefix, options->operands,
		options->operand_count, options->openmetrics, take_view, survey, patience, failure);

	signal(SIGPIPE, on_pipe);
	if (!done)
		return false;
	if (survey->out_of_memory)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	if (survey->count > 0)
		qsort(survey->views, survey->count, sizeof(*survey->views), compare_names);
	return true;
}

static void free_survey(struct survey *survey)
{
	for (size_t i = 0; i < survey->count; i++)
		free_view(&survey->views[i]);
	free(survey->views);
}

/* Whether what is asked is: is this one lock held? */
static bool asks_for_one(const struct options *options)
{
	return options->operand_count == 1 && !operands_is_glob(options->operands[0]);
}

static bool is_held(const struct survey *survey)
{
	return survey->count > 0 && (survey->views[0].foreign || survey->views[0].holder_count > 0);
}

static void say_dissent(const struct survey *survey)
{
	for (size_t i = 0; i < survey->count; i++)
		if (survey->views[i].dissent != NULL)
			message_say(MESSAGE_WARNING, "%s: %s", survey->views[i].name,
				survey->views[i].dissent);
}

static bool show(
	const struct survey *survey, const struct options *options, struct failure *failure)
{
	if (asks_for_one(options) && !message_shows(MESSAGE_WARNING))
		return true;
	if (options->openmetrics)
		openmetrics_print(survey->views, survey->count);
	else if (!options->json)
		output_table(survey->views, survey->count);
	else if (!output_json(survey->views, survey->count, failure))
		return false;
	return output_finish(failure);
}

int cmd_status(const struct options *options)
{
	struct survey survey = {0};
	struct failure failure;
	int code;

	message_say(MESSAGE_INFO, "asking %s", options->server->text);
	if (take_survey(&survey, options, &failure) && show(&survey, options, &failure)) {
		code = asks_for_one(options) && !is_held(&survey) ? EXIT_BUSY : EXIT_DONE;
		say_dissent(&survey);
	} else {
		code = (int)failure.code;
		message_say(MESSAGE_ERROR, "%s", failure.text);
	}
	free_survey(&survey);
	return code;
}
