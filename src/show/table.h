/* The table of `dlock status`, for people. Nothing that comes from a server reaches stdout with a
 * control character in it. */
#pragma once

#include <stddef.h>

struct lock_view;

struct table_form {
	int columns;            /* a wider table is cut: NAME and HOLDER first; 0: it is not */
	int lines;              /* the last one says how many more there are; 0: no limit */
	const char *line_start; /* the text that each line begins with */
};

/* A heading, then a line for each holder; a lock without a known holder has a line as well. */
void table_print(const struct lock_view *views, size_t count, const struct table_form *form);
