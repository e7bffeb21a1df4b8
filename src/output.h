/* What `dlock status` prints to stdout: a table for people, JSON for scripts. Nothing that comes
 * from a server reaches it with a control character in it. */
#ifndef DLOCK_OUTPUT_H
#define DLOCK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

struct failure;
struct lock_view;

/* A heading, then a line for each holder; a lock that nobody known holds has a line as well. */
void output_table(const struct lock_view *views, size_t count);

/* One array on one line, as dlock(1) has it: its form does not change any more. What is not known
 * is null. False with failure EXIT_SYSTEM when memory is short. */
bool output_json(const struct lock_view *views, size_t count, struct failure *failure);

/* Ends what was printed: false with failure EXIT_SYSTEM when stdout did not take all of it. */
bool output_finish(struct failure *failure);

#endif
