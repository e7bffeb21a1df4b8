/* An option: a row of the table (option_table.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct failure;
struct options;

#define OPTION_NAMES 4 /* long names at most, and a NULL */

/* The kinds of words that a shell may offer as the argument. */
enum option_completion {
	COMPLETE_NOTHING,
	COMPLETE_CHOICE, /* row->choices */
	COMPLETE_COMMAND,
	COMPLETE_FILE,
	COMPLETE_LOCK, /* a NAME that is in use */
	COMPLETE_PROFILE,
	COMPLETE_SERVER, /* how its URL may begin */
	COMPLETE_SIGNAL,
};

/* Whether an option counts before the files are read: which files these are, how much to say of
 * them, and where to. */
enum option_early { EARLY_NOT, EARLY_SETTING, EARLY_AUDIENCE };

/* The text that an option shows. */
enum option_show { SHOW_NOTHING, SHOW_HELP, SHOW_VERSION };

struct option_row {
	const char *letters;                 /* each stands for the option; NULL: none */
	const char *names[OPTION_NAMES + 1]; /* the first is the one that messages use */
	const char *argument;                /* as --help calls it; NULL: it takes none */
	const char *help;                    /* one line */
	const char *preset;                  /* the value that it is set to first; NULL: none */
	const char *otherwise;               /* said in its place, as the default, if it is NULL */
	unsigned commands;                   /* which take it: struct command's bit */
	bool configurable;                   /* may stand in the configuration file */
	enum option_completion completion;
	enum option_early early;

	/* Exactly one of three. Sets a field of the options; text is NULL for an option without
	 * argument on the command line, in a file such a one is yes or no. Borrows text. False
	 * with failure, which quotes the text but does not name the option. */
	bool (*set)(const struct option_row *row, const char *text, struct options *options,
		struct failure *failure);
	/* Something is shown instead of a command being run. */
	enum option_show show;
	/* An option of flock(1) that cannot be had: the way here. */
	const char *instead;

	/* For set() */
	size_t field; /* offset in struct options */
	int64_t least, most;
	const char *(*fault)(const char *text); /* the fault of a text; NULL: none */
	const char *const *choices;             /* ends with NULL; the index is stored */
};
