/*
 * The command line as data. One table (option_table.c) of all options feeds this parser, --help,
 * the configuration file, the completions and the test that holds the manual against it.
 */
#pragma once

#include <stdbool.h>

struct command;
struct failure;
struct options;

/* Reads argv, environment and configuration. `commands` is the table of those there are
 * (command.h), to which options->command points. On -h and -V prints to stdout and sets *done.
 * False with failure (EXIT_USAGE, EXIT_CONFIG, EXIT_SYSTEM); what was read till then counts. A
 * password in argv is overwritten in place, so that the copy in options->server is the only one
 * left. If other_program_is_needed(), the password stays in argv, and operands and password are not
 * read: the other program is to do that. */
bool options_read(struct options *options, const struct command *commands, int argc, char **argv,
	bool *done, struct failure *failure);
