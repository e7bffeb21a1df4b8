/* COMMAND as a ward: its environment, its start, the signals for it, how its end is told. */
#pragma once

#include "supervise/ward.h"

/* `own` is a struct program, as program_find has filled it in. */
extern const struct ward_ops command_ward;

/* No process at all, for front_acquire: a detached lock has no keeper, so only the operations of a
 * front that waits are there. `own` is not used. */
extern const struct ward_ops detached_ward;
