/*
 * A command, as far as cli/ knows it: its name, its options, and its help. The
 * table of them is made elsewhere (commands/commands.c) and passed in; it ends with a NULL word,
 * and its first is what no word means.
 */
#pragma once

#include <stdbool.h>

#include "cli/option_row.h"

struct failure;
struct options;

enum command_bit {
	COMMAND_RUN = 1 << 0,
	COMMAND_STATUS = 1 << 1,
	COMMAND_GUARD = 1 << 2,
	COMMAND_ACQUIRE = 1 << 3,
	COMMAND_RENEW = 1 << 4,
	COMMAND_RELEASE = 1 << 5,
	COMMAND_HOLD = 1 << 6,
	COMMAND_CHECK = 1 << 8,
};

struct command {
	const char *word;    /* as on the command line; "run" is also what no word means */
	unsigned bit;        /* in the option table: which options it takes */
	const char *usage;   /* the words behind "dlock [word] [OPTION]..." */
	const char *summary; /* one line for --help */
	bool stops;          /* its options end at the first operand: what follows has its own */
	bool (*take)(struct options *options, struct failure *failure); /* reads the operands */
	int (*run)(const struct options *options);                      /* returns the exit code */
	enum option_show show; /* in the place of both: what is shown, as by an option */
};
