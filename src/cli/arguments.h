/* The command line cut into a command, options and operands, by getopt_long(3) and the table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct command;
struct failure;
struct option_row;

/* An option as it was given. */
struct argument {
	const struct option_row *row;
	char *text; /* in argv; NULL: it takes none */
};

struct arguments {
	const struct command *commands; /* the table; borrowed */
	const struct command *command;  /* in it */
	struct argument *options;       /* owned; in the order given */
	size_t option_count;
	char **operands; /* in argv, NULL-terminated */
	size_t operand_count;
	bool done; /* an option such as --help has shown something, and that is all */
};

/* `commands` is the table of those there are (command.h). Options may stand before and after the
 * command word; those of a command that stops there end at its first operand, elsewhere they may
 * also stand among the operands (argv is then put into order). False with failure EXIT_USAGE, or
 * EXIT_SYSTEM. Either way arguments_close(). */
bool arguments_read(struct arguments *arguments, const struct command *commands, int argc,
	char **argv, struct failure *failure);
void arguments_close(struct arguments *arguments);
