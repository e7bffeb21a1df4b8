/*
 * The one table of all options: what the command line, the configuration file, --help and the
 * completions know of them. A new option is a row here and a field in struct options.
 */
#pragma once

#include "cli/option_row.h"

/* Ends with a row without names. */
extern const struct option_row option_rows[];

/* The row with that long name, or NULL. */
const struct option_row *option_by_name(const char *name);

/* The row with that letter, or NULL. */
const struct option_row *option_by_letter(int letter);
