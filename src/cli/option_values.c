#include "cli/option_values.h"

#include <bsd/stdlib.h>
#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/duration.h"
#include "base/failure.h"
#include "base/newer_libc.h"
#include "cli/hint.h"
#include "cli/option_row.h"
#include "cli/options.h"
#include "lock/services.h"
#include "net/server.h"

#define REPLICAS_MOST    100
#define REPLICAS_IN      NANOS_PER_SEC
#define REPLICAS_IN_MOST (60 * NANOS_PER_SEC)

/* The row's field of the options. */
static void *field(const struct option_row *row, struct options *options)
{
	return (char *)options + row->field;
}

/* An option without argument: given on the command line, or yes or no in a file. It is no if it
 * fails. */
static bool read_yes(const char *text, bool *yes, struct failure *failure)
{
	static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};

	*yes = text == NULL;
	if (*yes)
		return true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*yes = i % 2 == 1;
			return true;
		}
	}
	return failure_set(failure, EXIT_USAGE, "'%.100s' is neither yes nor no", text);
}

OPTION_SETTER(option_set_flag)
{
	return read_yes(text, field(row, options), failure);
}

OPTION_SETTER(option_set_zero)
{
	bool yes, good = read_yes(text, &yes, failure);

	if (yes)
		*(nanos *)field(row, options) = 0;
	return good;
}

OPTION_SETTER(option_set_step)
{
	bool yes, good = read_yes(text, &yes, failure);

	if (yes)
		*(int *)field(row, options) += (int)row->least;
	return good;
}

OPTION_SETTER(option_set_constant)
{
	bool yes, good = read_yes(text, &yes, failure);

	if (yes)
		*(int *)field(row, options) = (int)row->least;
	return good;
}

OPTION_SETTER(option_set_duration)
{
	char bound[DURATION_TEXT];
	nanos value;

	if (!duration_parse(text, &value) && duration_guess(text, bound))
		return failure_set(failure, EXIT_USAGE, "'%.100s' is no duration; did you mean %s?",
			text, bound);
	if (!duration_parse(text, &value))
		return failure_set(failure, EXIT_USAGE,
			"'%.100s' is no duration like 90, 2.5, 250ms or 1m30s", text);
	if (value < row->least || value > row->most)
		return failure_set(failure, EXIT_USAGE, "'%.100s' is %s than %s", text,
			value < row->least ? "less" : "more",
			duration_format(value < row->least ? row->least : row->most, bound));
	*(nanos *)field(row, options) = value;
	return true;
}

static bool read_number(
	const struct option_row *row, const char *text, int64_t *value, struct failure *failure)
{
	const char *error = "invalid";

	/* strtonum(3) would let blanks and a '+' pass. */
	if (isdigit((unsigned char)text[*text == '-']))
		*value = strtonum(text, row->least, row->most, &error);
	if (error == NULL)
		return true;
	return failure_set(failure, EXIT_USAGE,
		"'%.100s' is no number from %" PRId64 " to %" PRId64, text, row->least, row->most);
}

OPTION_SETTER(option_set_number)
{
	int64_t value = 0;

	if (!read_number(row, text, &value, failure))
		return false;
	*(int *)field(row, options) = (int)value;
	return true;
}

OPTION_SETTER(option_set_token)
{
	return read_number(row, text, field(row, options), failure);
}

OPTION_SETTER(option_set_text)
{
	const char *fault = row->fault != NULL ? row->fault(text) : NULL;

	if (fault != NULL)
		return failure_set(failure, EXIT_USAGE, "'%.100s' %s", text, fault);
	*(const char **)field(row, options) = text;
	return true;
}

OPTION_SETTER(option_set_label)
{
	return option_set_text(row, *text == '\0' ? NULL : text, options, failure);
}

OPTION_SETTER(option_set_also)
{
	const char **also =
		reallocarray(options->also, options->also_count + 1, sizeof(*options->also));

	(void)row;
	if (also == NULL)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	options->also = also;
	also[options->also_count++] = text;
	return true;
}

OPTION_SETTER(option_set_replicas)
{
	const char *colon = strchr(text, ':');
	const char *error = "invalid";
	nanos within = REPLICAS_IN;
	char number[8];

	(void)row;
	snprintf(number, sizeof(number), "%.*s", colon ? (int)(colon - text) : 7, text);
	if (isdigit((unsigned char)*number))
		options->replicas = (int)strtonum(number, 1, REPLICAS_MOST, &error);
	if (error != NULL || (colon && !duration_parse(colon + 1, &within)) ||
		within < NANOS_PER_MS || within > REPLICAS_IN_MOST)
		return failure_set(failure, EXIT_USAGE,
			"'%.100s' is no number of replicas from 1 to %d, or one with a duration "
			"from 1ms to 1m, like 2:500ms",
			text, REPLICAS_MOST);
	options->replicas_in = within;
	return true;
}

OPTION_SETTER(option_set_choice)
{
	for (unsigned i = 0; row->choices[i] != NULL; i++) {
		if (strcmp(text, row->choices[i]) == 0) {
			*(unsigned *)field(row, options) = i;
			return true;
		}
	}
	return failure_set(failure, EXIT_USAGE, "'%.100s' is not %s", text, row->argument);
}

/* RTMIN, RTMIN+1, RTMAX-1; 0: no such signal. */
static int find_realtime_signal(const char *name)
{
	bool from_least = strncasecmp(name, "RTMIN", 5) == 0;
	const char *rest = name + 5;
	const char *error = NULL;
	int offset = 0;

	if (!from_least && strncasecmp(name, "RTMAX", 5) != 0)
		return 0;
	if (*rest != '\0') {
		if (*rest != (from_least ? '+' : '-') || !isdigit((unsigned char)rest[1]))
			return 0;
		offset = (int)strtonum(rest + 1, 0, SIGRTMAX - SIGRTMIN, &error);
		if (error != NULL)
			return 0;
	}
	return from_least ? SIGRTMIN + offset : SIGRTMAX - offset;
}

static int find_signal(const char *text)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	const char *error;
	int number;

	if (isdigit((unsigned char)*text)) {
		number = (int)strtonum(text, 1, SIGRTMAX, &error);
		/* The numbers between are the C library's own. */
		return error != NULL || (number >= __SIGRTMIN && number < SIGRTMIN) ? 0 : number;
	}
	for (number = 1; number < __SIGRTMIN; number++) {
		const char *abbreviation = sigabbrev_np(number);

		if (abbreviation != NULL && strcasecmp(name, abbreviation) == 0)
			return number;
	}
	return find_realtime_signal(name);
}

OPTION_SETTER(option_set_signal)
{
	int number = find_signal(text);

	if (number == 0)
		return failure_set(failure, EXIT_USAGE,
			"'%.100s' is no signal like TERM, SIGTERM, 15 or RTMIN+1", text);
	*(int *)field(row, options) = number;
	return true;
}

OPTION_SETTER(option_set_server)
{
	struct server **server = field(row, options);
	struct server *parsed = services_read_url(text, failure);

	if (parsed == NULL) {
		hint_url(text, failure);
		return false;
	}
	server_free(*server);
	*server = parsed;
	return true;
}
