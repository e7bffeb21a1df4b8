/* What `dlock status` prints to stdout for scripts; table.h is for people. Nothing that comes from
 * a server reaches it with a control character in it. */
#ifndef DLOCK_OUTPUT_H
#define DLOCK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "lock.h"

/* The word for a mode; view NULL: that of a party. */
const char *output_mode(const struct lock_view *view, enum lock_mode mode);

/* One array on one line, as dlock(1) has it: its form does not change any more. What is not known
 * is null. False with failure EXIT_SYSTEM when memory is short. */
bool output_json(const struct lock_view *views, size_t count, struct failure *failure);

/* Ends what was printed: false with failure EXIT_SYSTEM when stdout did not take all of it. */
bool output_finish(struct failure *failure);

#endif
