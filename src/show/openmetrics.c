#include "show/openmetrics.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "lock/lock_list.h"

/* A sample: whole units, or thousandths or millionths of them. False: there is none. */
struct sample {
	int64_t number;
	int64_t per_unit;
};

static bool get_held(const struct lock_view *view, struct sample *sample)
{
	*sample = (struct sample){view->foreign ? 1 : (int64_t)view->holder_count, 1};
	return true;
}

static bool get_waiters(const struct lock_view *view, struct sample *sample)
{
	*sample = (struct sample){(int64_t)view->waiter_count, 1};
	return true;
}

static bool get_ttl(const struct lock_view *view, struct sample *sample)
{
	*sample = (struct sample){view->ttl_ms, 1000};
	return view->ttl_ms >= 0;
}

#define GET_COUNTER(field, unit)                                                                   \
	static bool get_##field(const struct lock_view *view, struct sample *sample)               \
	{                                                                                          \
		*sample = (struct sample){view->counters.field, unit};                             \
		return true;                                                                       \
	}

GET_COUNTER(acquisitions, 1)
GET_COUNTER(contentions, 1)
GET_COUNTER(timeouts, 1)
GET_COUNTER(losses, 1)
GET_COUNTER(waited_us, 1000000)
GET_COUNTER(held_us, 1000000)

static const struct {
	const char *name, *type, *help;
	bool (*get)(const struct lock_view *view, struct sample *sample);
} families[] = {
	{"dlock_held", "gauge", "How many hold the lock.", get_held},
	{"dlock_waiters", "gauge", "How many wait for the lock.", get_waiters},
	{"dlock_ttl_seconds", "gauge", "What is left of the lease of a lock that is held.",
		get_ttl},
	{"dlock_acquisitions", "counter", "Grants.", get_acquisitions},
	{"dlock_contentions", "counter", "Requests that found the lock taken.", get_contentions},
	{"dlock_timeouts", "counter", "Waits that were given up.", get_timeouts},
	{"dlock_losses", "counter", "Locks that were lost while they were held.", get_losses},
	{"dlock_waited_seconds", "counter", "Time from request to grant.", get_waited_us},
	{"dlock_held_seconds", "counter", "Time from grant to release.", get_held_us},
};

/* A name may have it of its own. */
static bool looks_escaped(const char *text)
{
	return text[0] == '\\' && text[1] == 'x' && isxdigit((unsigned char)text[2]) &&
	       isxdigit((unsigned char)text[3]);
}

/* What a terminal must not get, and a byte that is no UTF-8, becomes \xNN, and so does a backslash
 * that would be taken for the beginning of one: two names stay two. */
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

static void print_value(struct sample sample)
{
	int digits = 0;

	for (int64_t unit = sample.per_unit; unit > 1; unit /= 10)
		digits++;
	printf("%" PRId64, sample.number / sample.per_unit);
	if (digits > 0)
		printf(".%0*" PRId64, digits, sample.number % sample.per_unit);
	putchar('\n');
}

void openmetrics_print(const struct lock_view *views, size_t count)
{
	struct sample sample;

	for (size_t f = 0; f < sizeof(families) / sizeof(families[0]); f++) {
		const char *name = families[f].name;
		bool counts = strcmp(families[f].type, "counter") == 0;

		printf("# TYPE %s %s\n# HELP %s %s\n", name, families[f].type, name,
			families[f].help);
		for (size_t i = 0; i < count; i++) {
			if (!families[f].get(&views[i], &sample))
				continue;
			printf("%s%s{name=\"", name, counts ? "_total" : "");
			print_label(views[i].name);
			fputs("\"} ", stdout);
			print_value(sample);
		}
	}
	puts("# EOF");
}
