/* The table of `dlock status`, for people. Nothing that comes from a server reaches stdout with a
 * control character in it. */
#pragma once

#include <stddef.h>

struct lock_view;

struct table_form {
	int columns;            /* what is wider is cut: NAME and HOLDER first; 0: nothing is */
	int lines;              /* the last one says how many more there are; 0: no limit */
	const char *line_start; /* what each begins with */
};

/* A heading, then a line for each holder; a lock without a known holder has a line as well. */
void table_print(const struct lock_view *views, size_t count, const struct table_form *form);
