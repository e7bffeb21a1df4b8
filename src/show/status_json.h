/* The output of `dlock status` for scripts, to stdout; table.h is for people. Nothing that comes
 * from a server reaches it with a control character in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "lock/lock.h"

struct lock_view;

/* The word for a mode; view NULL: that of a party. */
const char *status_json_mode(const struct lock_view *view, enum lock_mode mode);

/* One array on one line, as dlock-status(1) has it: its form does not change any more. An unknown
 * value is null. False with failure EXIT_SYSTEM when memory is short. */
bool status_json_print(const struct lock_view *views, size_t count, struct failure *failure);

/* Values of jansson's, a new reference each. null if there is no text; what is no UTF-8 becomes
 * '?'. NULL: out of memory. */
struct json_t *status_json_text(const char *text);

/* null if it is not known. */
struct json_t *status_json_number(int64_t number, bool known);
