/* The commands: one table (commands.c) that is dispatch, help and map in one; one command, one
 * file. */
#ifndef DLOCK_CLI_COMMANDS_H
#define DLOCK_CLI_COMMANDS_H

#include <stdbool.h>

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
	const char *usage;   /* what follows "dlock [word] [OPTION]..." */
	const char *summary; /* one line for --help */
	bool stops;          /* its options end at the first operand: what follows has its own */
	bool (*take)(struct options *options, struct failure *failure); /* reads the operands */
	int (*run)(const struct options *options);                      /* returns the exit code */
};

/* Ends with a NULL word; the first is what no word means. */
extern const struct command commands[];

/* NULL: there is none of that name. */
const struct command *command_find(const char *word);

/* Whether a word is kept for a command, now or later, so that no lock is called that by accident.
 */
bool command_is_reserved(const char *word);

int cmd_run(const struct options *options);
int cmd_status(const struct options *options);
int cmd_guard(const struct options *options);
int cmd_acquire(const struct options *options);
int cmd_renew(const struct options *options);
int cmd_hold(const struct options *options);
int cmd_release(const struct options *options);
int cmd_check(const struct options *options);

#endif
