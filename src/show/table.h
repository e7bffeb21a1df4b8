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

#define TABLE_RUNS_TEXT 400 /* enough for table_describe_runs */

/* "last success 7m ago on web3, took 2m; last run failed (7) 1m ago on web4, took 3s"; "" if none
 * is on record. Pure. Returns text. */
const char *table_describe_runs(const struct lock_view *view, char text[static TABLE_RUNS_TEXT]);
