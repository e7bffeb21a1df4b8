#include "show/runs.h"

#include <bsd/string.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/utf8.h"
#include "lock/lock_list.h"

static const char *span_of(int64_t ms, char text[static DURATION_TEXT])
{
	return duration_format(ms < 0 ? 0 : ms * NANOS_PER_MS, text);
}

static void describe(const struct lock_run *run, const char *what, char text[static RUNS_TEXT / 2])
{
	char ago[DURATION_TEXT], took[DURATION_TEXT];

	snprintf(text, RUNS_TEXT / 2, "%s %s ago on %s, took %s", what, span_of(run->ago_ms, ago),
		run->owner.host, span_of((run->ended_us - run->began_us) / 1000, took));
}

const char *runs_describe(const struct lock_view *view, char text[static RUNS_TEXT])
{
	const struct lock_run *run = &view->last_run, *success = &view->last_success;
	char half[RUNS_TEXT / 2], what[40];

	text[0] = '\0';
	if (success->ended_us != 0) {
		describe(success, "last success", half);
		strlcat(text, half, RUNS_TEXT);
	}
	if (run->ended_us > success->ended_us) {
		snprintf(what, sizeof(what), "last run failed (%d)", run->exit);
		describe(run, what, half);
		strlcat(text, *text ? "; " : "", RUNS_TEXT);
		strlcat(text, half, RUNS_TEXT);
	}
	utf8_clean(text);
	return text;
}
