/* What `dlock status` prints to stdout for scripts; table.h is for people. Nothing that comes from
 * a server reaches it with a control character in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lock/lock.h"

struct lock_view;

/* The word for a mode; view NULL: that of a party. */
const char *status_json_mode(const struct lock_view *view, enum lock_mode mode);

/* One array on one line, as dlock(1) has it: its form does not change any more. What is not known
 * is null. False with failure EXIT_SYSTEM when memory is short. */
bool status_json_print(const struct lock_view *views, size_t count, struct failure *failure);
