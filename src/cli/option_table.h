/*
 * The one table of all options: what the command line, the configuration file, --help and the
 * completions know of them. A new option is a row here and a field in struct options.
 */
#ifndef DLOCK_CLI_OPTION_TABLE_H
#define DLOCK_CLI_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command;
struct failure;
struct options;

#define OPTION_NAMES 4 /* long names at most, and a NULL */

/* What a shell may offer as the argument. */
enum option_completion {
	COMPLETE_NOTHING,
	COMPLETE_CHOICE, /* row->choices */
	COMPLETE_COMMAND,
	COMPLETE_FILE,
	COMPLETE_LOCK, /* a NAME that is in use */
	COMPLETE_PROFILE,
	COMPLETE_SIGNAL,
};

struct option_row {
	const char *letters;                 /* each stands for the option; NULL: none */
	const char *names[OPTION_NAMES + 1]; /* the first is the one that messages use */
	const char *argument;                /* as --help calls it; NULL: it takes none */
	const char *help;                    /* one line */
	const char *preset;                  /* what it is set to first; NULL: nothing */
	const char *otherwise;               /* said in its place where there is no preset */
	unsigned commands;                   /* which take it: struct command's bit */
	bool configurable;                   /* may stand in the configuration file */
	enum option_completion completion;

	/* Exactly one of three. Sets a field of the options; text is NULL for an option without
	 * argument on the command line, in a file such a one is yes or no. Borrows text. False
	 * with failure, which quotes the text but does not name the option. */
	bool (*set)(const struct option_row *row, const char *text, struct options *options,
		struct failure *failure);
	/* Prints something instead of a command being run, with the table of commands; which one is
	 * known only when its word stands before, else it is NULL. */
	bool (*show)(const struct command *commands, const struct command *command,
		struct failure *failure);
	/* An option of flock(1) that cannot be had: the way here. */
	const char *instead;

	/* For set() */
	size_t field; /* offset in struct options */
	int64_t least, most;
	const char *const *choices; /* ends with NULL; the index is stored */
};

/* Ends with a row without names. */
extern const struct option_row option_rows[];

/* The row with that long name, or NULL. */
const struct option_row *option_by_name(const char *name);

/* The row with that letter, or NULL. */
const struct option_row *option_by_letter(int letter);

#endif
