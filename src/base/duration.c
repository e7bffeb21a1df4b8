#include "base/duration.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NANOS_PER_MINUTE (60 * NANOS_PER_SEC)
#define NANOS_PER_HOUR   (60 * NANOS_PER_MINUTE)
#define NANOS_PER_DAY    (24 * NANOS_PER_HOUR)

#define DURATION_MOST (36525 * NANOS_PER_DAY) /* 100 years */

/* Largest first. Nothing needs finer than
 * milliseconds; that every unit is a whole number of them keeps the arithmetic exact. */
static const struct unit {
	const char *name;
	nanos span;
} units[] = {
	{"d", NANOS_PER_DAY},
	{"h", NANOS_PER_HOUR},
	{"m", NANOS_PER_MINUTE},
	{"s", NANOS_PER_SEC},
	{"ms", NANOS_PER_MS},
};

#define UNIT_COUNT   (sizeof(units) / sizeof(units[0]))
#define UNIT_SECONDS 3

#define FRACTION_ONE INT64_C(1000000000) /* a fraction is counted in billionths */

/* A decimal number: 12, 1.5, .5, 5. */
struct number {
	int64_t whole;
	int64_t fraction; /* in 1/FRACTION_ONE; further digits are dropped */
};

/* Returns what follows the number at text; NULL when there is none, or one that is too large. */
static const char *read_number(const char *text, struct number *number)
{
	bool digits = false;

	*number = (struct number){0};
	for (; isdigit((unsigned char)*text); text++) {
		digits = true;
		number->whole = number->whole * 10 + (*text - '0');
		if (number->whole > DURATION_MOST / NANOS_PER_MS)
			return NULL;
	}
	if (*text == '.') {
		text++;
		for (int64_t weight = FRACTION_ONE / 10; isdigit((unsigned char)*text);
			text++, weight /= 10) {
			digits = true;
			number->fraction += (*text - '0') * weight;
		}
	}
	return digits ? text : NULL;
}

/* The unit that the letters at text spell, which end there or at the next number; else NULL. */
static const struct unit *find_unit(const char *text, size_t *length)
{
	*length = strspn(text, "abcdefghijklmnopqrstuvwxyz");
	for (size_t i = 0; i < UNIT_COUNT; i++)
		if (strlen(units[i].name) == *length && strncmp(text, units[i].name, *length) == 0)
			return &units[i];
	return NULL;
}

/* *total + number units, if that is within bounds. */
static bool add(nanos *total, const struct number *number, const struct unit *unit)
{
	nanos fraction =
		unit->span / NANOS_PER_MS * number->fraction / (FRACTION_ONE / NANOS_PER_MS);

	if (number->whole > (DURATION_MOST - *total) / unit->span)
		return false;
	*total += number->whole * unit->span + fraction;
	return *total <= DURATION_MOST;
}

bool duration_parse(const char *text, nanos *out)
{
	struct number number;
	nanos total = 0;
	bool first = true;

	do {
		const struct unit *unit = &units[UNIT_SECONDS];
		size_t length = 0;

		text = read_number(text, &number);
		if (text == NULL)
			return false;
		if (*text != '\0' || !first)
			unit = find_unit(text, &length);
		if (unit == NULL || !add(&total, &number, unit))
			return false;
		text += length;
		first = false;
	} while (*text != '\0');
	*out = total;
	return true;
}

/* The unit's name for one of its others at text, of `length` letters; NULL: it is none. */
static const char *find_other_name(const char *text, size_t length)
{
	static const struct {
		const char *other, *name; /* the other one may have an s behind it */
	} names[] = {
		{"millisecond", "ms"},
		{"milli", "ms"},
		{"msec", "ms"},
		{"ms", "ms"},
		{"second", "s"},
		{"sec", "s"},
		{"s", "s"},
		{"minute", "m"},
		{"min", "m"},
		{"m", "m"},
		{"hour", "h"},
		{"hr", "h"},
		{"h", "h"},
		{"day", "d"},
		{"d", "d"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t own = strlen(names[i].other);
		bool plural = own > 1 && length == own + 1 && (text[own] | 0x20) == 's';

		if ((length == own || plural) && strncasecmp(names[i].other, text, own) == 0)
			return names[i].name;
	}
	return NULL;
}

bool duration_guess(const char *text, char buf[static DURATION_TEXT])
{
	size_t used = 0;
	nanos span;

	text += strspn(text, " ");
	while (*text != '\0') {
		size_t digits = strspn(text, "0123456789.");
		size_t blanks = strspn(text + digits, " ");
		const char *unit = text + digits + blanks;
		size_t length = 0;
		const char *name;

		while (isalpha((unsigned char)unit[length]))
			length++;
		name = find_other_name(unit, length);
		if (name == NULL || used + digits + sizeof("ms") > DURATION_TEXT)
			return false;
		used += (size_t)snprintf(
			buf + used, DURATION_TEXT - used, "%.*s%s", (int)digits, text, name);
		text = unit + length + strspn(unit + length, " ");
	}
	return used > 0 && duration_parse(buf, &span);
}

const char *duration_format(nanos span, char buf[static DURATION_TEXT])
{
	size_t unit = 0;
	int length;

	if (span <= 0) {
		snprintf(buf, DURATION_TEXT, "0s");
		return buf;
	}
	while (unit < UNIT_COUNT - 1 && span < units[unit].span)
		unit++;
	length = snprintf(
		buf, DURATION_TEXT, "%" PRId64 "%s", span / units[unit].span, units[unit].name);
	span %= units[unit].span;
	if (unit < UNIT_SECONDS && span >= units[unit + 1].span)
		snprintf(buf + length, DURATION_TEXT - (size_t)length, "%" PRId64 "%s",
			span / units[unit + 1].span, units[unit + 1].name);
	return buf;
}

/* ".25" of a unit; nothing if there is none. */
static void write_fraction(nanos rest, nanos unit, char *at)
{
	if (rest == 0)
		return;
	*at++ = '.';
	for (; rest > 0; rest %= unit) {
		rest *= 10;
		*at++ = (char)('0' + rest / unit);
	}
	*at = '\0';
}

const char *duration_format_given(nanos span, char buf[static DURATION_TEXT])
{
	size_t last = span > 0 && span < NANOS_PER_SEC ? UNIT_SECONDS + 1 : UNIT_SECONDS;
	char fraction[12] = "";
	size_t length = 0;

	buf[0] = '\0';
	for (size_t i = 0; i <= last; i++) {
		nanos whole = span / units[i].span;

		span %= units[i].span;
		if (i == last)
			write_fraction(span, units[i].span, fraction);
		if (whole > 0 || (i == last && (fraction[0] != '\0' || length == 0)))
			length += (size_t)snprintf(buf + length, DURATION_TEXT - length,
				"%" PRId64 "%s%s", whole, fraction, units[i].name);
	}
	return buf;
}
