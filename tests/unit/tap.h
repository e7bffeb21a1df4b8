/* The Test Anything Protocol, as much of it as the unit tests need. */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int tap_count, tap_failed;

/* One test: what is said names it, printf-like. */
__attribute__((format(printf, 2, 3))) static inline bool ok(bool good, const char *format, ...)
{
	va_list arguments;

	printf("%sok %d - ", good ? "" : "not ", ++tap_count);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	tap_failed += !good;
	return good;
}

/* Two texts are the same; either may be NULL. */
static inline bool same(const char *got, const char *wanted, const char *what)
{
	bool good = got == NULL || wanted == NULL ? got == wanted : strcmp(got, wanted) == 0;

	if (!ok(good, "%s", what))
		printf("# got:    %s\n# wanted: %s\n", got ? got : "(null)",
			wanted ? wanted : "(null)");
	return good;
}

/* The plan comes last; returns main's exit code. */
static inline int tap_end(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed != 0;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
