/* COMMAND as a ward: its environment, its start, the signals for it, how its end is told. */
#pragma once

#include "supervise/ward.h"

/* `own` is a struct program, as program_find has filled it in. */
extern const struct ward_ops command_ward;
