#include "show/status_json.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/failure.h"
#include "base/utf8.h"
#include "lock/lock_list.h"

const char *status_json_mode(const struct lock_view *view, enum lock_mode mode)
{
	static const char *const words[] = {[LOCK_EXCLUSIVE] = "exclusive",
		[LOCK_SHARED] = "shared",
		[LOCK_PERMITS] = "permits"};

	if (view != NULL && view->foreign)
		return "foreign";
	return view != NULL && view->holder_count + view->waiter_count == 0 &&
			       view->hold_off == LOCK_HOLD_OFF_NONE
		       ? "free"
		       : words[mode];
}

json_t *status_json_text(const char *text)
{
	char *copy = text ? strdup(text) : NULL;
	json_t *string = copy ? json_string(utf8_clean(copy)) : text ? NULL : json_null();

	free(copy);
	return string;
}

json_t *status_json_number(int64_t number, bool known)
{
	return known ? json_integer(number) : json_null();
}

/* 2026-11-21T05:00:01.250Z */
static json_t *moment(int64_t us)
{
	time_t seconds = (time_t)(us / 1000000);
	struct tm parts;
	char text[80];
	size_t length;

	if (us <= 0 || gmtime_r(&seconds, &parts) == NULL)
		return json_null();
	length = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text + length, sizeof(text) - length, ".%03dZ", (int)(us / 1000 % 1000));
	return json_string(text);
}

static json_t *holder_object(const struct lock_view_owner *holder)
{
	return json_pack("{s:o, s:I, s:o, s:o, s:o, s:I, s:o, s:b}", "host",
		status_json_text(holder->owner.host), "pid", (json_int_t)holder->owner.pid, "user",
		status_json_text(holder->owner.user), "label",
		status_json_text(holder->owner.label), "since", moment(holder->since_us), "held_ms",
		(json_int_t)holder->ms, "ttl_ms",
		status_json_number(holder->ttl_ms, holder->ttl_ms >= 0), "detached",
		(int)holder->detached);
}

static json_t *waiter_object(const struct lock_view_owner *waiter)
{
	return json_pack("{s:o, s:I, s:o, s:o, s:i, s:s, s:I}", "host",
		status_json_text(waiter->owner.host), "pid", (json_int_t)waiter->owner.pid, "user",
		status_json_text(waiter->owner.user), "label",
		status_json_text(waiter->owner.label), "priority", waiter->priority, "mode",
		status_json_mode(NULL, waiter->mode), "waited_ms", (json_int_t)waiter->ms);
}

/* An array of what make() makes of each; NULL when memory is short. */
static json_t *party_array(const struct lock_view_owner *owners, size_t count,
	json_t *(*make)(const struct lock_view_owner *owner))
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++) {
		if (json_array_append_new(array, make(&owners[i])) != 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

/* NULL: there is none. */
static json_t *hold_off_object(const struct lock_view *view)
{
	if (view->hold_off == LOCK_HOLD_OFF_NONE)
		return NULL;
	return json_pack("{s:s, s:I}", "reason",
		view->hold_off == LOCK_HOLD_OFF_SETTLE ? "settle" : "return", "ttl_ms",
		(json_int_t)view->hold_off_ms);
}

static json_t *run_object(const struct lock_run *run)
{
	if (run->ended_us == 0)
		return json_null();
	return json_pack("{s:o, s:o, s:i, s:o, s:o}", "began", moment(run->began_us), "ended",
		moment(run->ended_us), "exit", run->exit, "host", status_json_text(run->owner.host),
		"label", status_json_text(run->owner.label));
}

static json_t *view_object(const struct lock_view *view)
{
	return json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o*}", "name",
		status_json_text(view->name), "key", status_json_text(view->key), "mode",
		status_json_mode(view, view->mode), "fence",
		status_json_number((int64_t)view->fence, view->fence != 0), "ttl_ms",
		status_json_number(view->ttl_ms, view->ttl_ms >= 0), "holders",
		party_array(view->holders, view->holder_count, holder_object), "waiting",
		(json_int_t)view->waiter_count, "waiters",
		party_array(view->waiters, view->waiter_count, waiter_object), "last_success",
		run_object(&view->last_success), "last_run", run_object(&view->last_run),
		"hold_off", hold_off_object(view));
}

bool status_json_print(const struct lock_view *views, size_t count, struct failure *failure)
{
	json_t *array = json_array();
	bool done = array != NULL;

	for (size_t i = 0; done && i < count; i++)
		done = json_array_append_new(array, view_object(&views[i])) == 0;
	done = done && json_dumpf(array, stdout, JSON_COMPACT) == 0;
	json_decref(array);
	putchar('\n');
	return done || ferror(stdout) || failure_set(failure, EXIT_SYSTEM, "out of memory");
}
