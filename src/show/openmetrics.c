#include "show/openmetrics.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "lock/lock_list.h"

static int64_t get_held(const struct lock_view *view)
{
	return view->foreign ? 1 : (int64_t)view->holder_count;
}

static int64_t get_waiters(const struct lock_view *view)
{
	return (int64_t)view->waiter_count;
}

static int64_t get_ttl(const struct lock_view *view)
{
	return view->ttl_ms;
}

static int64_t get_success(const struct lock_view *view)
{
	return view->last_success.ended_us == 0 ? -1 : view->last_success.ended_us;
}

static int64_t get_duration(const struct lock_view *view)
{
	const struct lock_run *run = &view->last_run;

	return run->ended_us == 0 || run->ended_us < run->began_us ? -1
								   : run->ended_us - run->began_us;
}

static int64_t get_exit(const struct lock_view *view)
{
	return view->last_run.ended_us == 0 ? -1 : view->last_run.exit;
}

#define GET_COUNTER(field)                                                                         \
	static int64_t get_##field(const struct lock_view *view)                                   \
	{                                                                                          \
		return view->counters.field;                                                       \
	}

GET_COUNTER(acquisitions)
GET_COUNTER(contentions)
GET_COUNTER(timeouts)
GET_COUNTER(losses)
GET_COUNTER(waited_us)
GET_COUNTER(held_us)

static const struct {
	const char *name, *type, *help;
	int64_t (*get)(const struct lock_view *view); /* negative: there is none */
	int digits;                                   /* behind the point, of what it gets */
} families[] = {
	{"dlock_held", "gauge", "How many hold the lock.", get_held, 0},
	{"dlock_waiters", "gauge", "How many wait for the lock.", get_waiters, 0},
	{"dlock_ttl_seconds", "gauge", "What is left of the lease of a lock that is held.", get_ttl,
		3},
	{"dlock_last_success_timestamp_seconds", "gauge", "When COMMAND last succeeded.",
		get_success, 6},
	{"dlock_last_run_duration_seconds", "gauge", "How long the last COMMAND took.",
		get_duration, 6},
	{"dlock_last_run_exit_code", "gauge", "The last COMMAND's exit code.", get_exit, 0},
	{"dlock_acquisitions", "counter", "Grants.", get_acquisitions, 0},
	{"dlock_contentions", "counter", "Requests that found the lock taken.", get_contentions, 0},
	{"dlock_timeouts", "counter", "Waits that were given up.", get_timeouts, 0},
	{"dlock_losses", "counter", "Locks that were lost while they were held.", get_losses, 0},
	{"dlock_waited_seconds", "counter", "Time from request to grant.", get_waited_us, 6},
	{"dlock_held_seconds", "counter", "Time from grant to release.", get_held_us, 6},
};

/* A name may have it of its own. */
static bool looks_escaped(const char *text)
{
	return text[0] == '\\' && text[1] == 'x' && isxdigit((unsigned char)text[2]) &&
	       isxdigit((unsigned char)text[3]);
}

/* A character that a terminal must not get, and a byte that is no UTF-8, becomes \xNN, and so does
 * a backslash that would be taken for the beginning of one: two names stay two. */
static void print_label(const char *text)
{
	while (*text != '\0') {
		size_t bytes = utf8_character(text);

		if (bytes == 0 || utf8_is_unsafe(text) || looks_escaped(text)) {
			for (bytes = bytes == 0 ? 1 : bytes; bytes > 0; bytes--)
				printf("\\\\x%02x", (unsigned char)*text++);
			continue;
		}
		if (*text == '\\' || *text == '"')
			putchar('\\');
		fwrite(text, 1, bytes, stdout);
		text += bytes;
	}
}

static void print_value(int64_t value, int digits)
{
	int64_t unit = 1;

	for (int i = 0; i < digits; i++)
		unit *= 10;
	printf("%" PRId64, value / unit);
	if (digits > 0)
		printf(".%0*" PRId64, digits, value % unit);
	putchar('\n');
}

void openmetrics_print(const struct lock_view *views, size_t count)
{
	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		const char *name = families[f].name;
		bool counts = strcmp(families[f].type, "counter") == 0;

		printf("# TYPE %s %s\n# HELP %s %s\n", name, families[f].type, name,
			families[f].help);
		for (size_t i = 0; i < count; i++) {
			int64_t value = families[f].get(&views[i]);

			if (value < 0)
				continue;
			printf("%s%s{name=\"", name, counts ? "_total" : "");
			print_label(views[i].name);
			fputs("\"} ", stdout);
			print_value(value, families[f].digits);
		}
	}
	puts("# EOF");
}
