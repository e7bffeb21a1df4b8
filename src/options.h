/*
 * The command line as data. One table (options.c) of all options feeds this parser, --help, the
 * configuration file, the completions and the test that holds the manual against it.
 */
#ifndef DLOCK_OPTIONS_H
#define DLOCK_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "clock.h"

struct command; /* commands.h */
struct failure;

#define OPTIONS_WAIT_FOREVER NANOS_NEVER

enum options_on_lost { ON_LOST_STOP, ON_LOST_WARN };

/* All durations in ns. Strings are borrowed from argv, the environment, or the configuration,
 * which live as long as the process. */
struct options {
	const struct command *command; /* what to do */

	/* the lock */
	const char *name;     /* as given, or HOST/NAME with --per-host */
	const char *server;   /* the URL, from -S, DLOCK_SERVER or the configuration; NULL: none named */
	const char *password; /* DLOCK_PASSWORD, REDISCLI_AUTH, or password-file; NULL: none besides the URL's */
	const char *prefix;
	nanos wait;	      /* from the start on; 0: -n; OPTIONS_WAIT_FOREVER */
	nanos ttl;
	bool per_host;

	/* COMMAND */
	char **argv;	      /* COMMAND and its arguments, NULL-terminated; with -c: shell -c STRING */
	bool close;	      /* -o: the lock ends with COMMAND, descendants or not */
	nanos grace;
	int stop_signal;
	enum options_on_lost on_lost;
	const char *label;    /* --label, else COMMAND's base name */

	/* the outcome */
	int conflict_exit;    /* -E */
	int verbosity;	      /* message levels above it are silent: 1, -q 0, -qq -1, -v 2, -vv 3 */
	bool syslog;

	/* status */
	bool json;
	char **operands;      /* what follows the command word and is not an option */
	size_t operand_count;

	nanos started;	      /* when dlock began: -w counts from here */
};

/* Reads argv, environment and configuration. On -h and -V prints to stdout and sets *done. False
 * with failure (EXIT_USAGE, EXIT_CONFIG). A password in argv is overwritten in place; the copy that
 * options hold is the only one left. */
bool options_read(struct options *options, int argc, char **argv, bool *done, struct failure *failure);

#endif
