/* The request, as the command line, the environment and the configuration say it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"

struct command;
struct server;

#define OPTIONS_WAIT_FOREVER NANOS_NEVER

/* The last one of -x, -s and --permits counts, so they share a field. */
#define OPTIONS_EXCLUSIVE  0
#define OPTIONS_SHARED     (-1)
#define OPTIONS_WARNINGS   4
#define OPTIONS_GRACE_MOST (10 * NANOS_PER_SEC)

enum options_on_lost { ON_LOST_STOP, ON_LOST_WARN };
enum options_if_unreachable { IF_UNREACHABLE_FAIL, IF_UNREACHABLE_SKIP };

/* All durations in ns. Strings are borrowed from argv, the environment or what the options keep,
 * and live until options_close(). */
struct options {
	const struct command *command; /* the command */

	/* the lock */
	const char *name;      /* as given, or HOST/NAME with --per-host */
	struct server *server; /* owned; with its password, wherever that came from */
	const char *prefix;
	nanos wait; /* from the start on; 0: -n; OPTIONS_WAIT_FOREVER */
	nanos ttl;
	int sharers; /* OPTIONS_EXCLUSIVE, OPTIONS_SHARED, or K with --permits K */
	int priority;
	bool per_host;
	const char **also; /* NAMEs of more locks; owned */
	size_t also_count;
	int replicas; /* must have the lock, within replicas_in; 0: none */
	nanos replicas_in;
	nanos at_least;    /* keep the lock for that long from its grant; 0 */
	nanos cooldown;    /* skip when a success is less than that ago; 0: do not */
	const char *once;  /* skip when there is a success under this ID; NULL: do not */
	nanos settle;      /* take no lock from a server that has been up for less; 0 */
	bool settle_given; /* the option is more than a preset, */
	bool settle_named; /* and from the command line */
	nanos once_for;    /* for how long ours is remembered under it */
	enum options_if_unreachable if_unreachable;

	/* COMMAND */
	char **argv; /* COMMAND and its arguments, NULL-terminated; with -c: shell -c STRING */
	bool close;  /* -o: the lock ends with COMMAND, descendants or not */
	nanos grace;
	nanos max_run; /* 0: no limit */
	int stop_signal;
	enum options_on_lost on_lost;
	bool notify_ready; /* with NOTIFY_SOCKET: READY=1 at the grant */
	const char *label; /* --label, else COMMAND's base name; with -c, that of STRING's first
			    * word if it is plain, else the shell's */

	/* the outcome */
	int conflict_exit; /* -E */
	int verbosity;     /* message levels above it are silent: 1, -q 0, -qq -1, -v 2, -vv 3 */
	bool syslog;
	const char *report; /* a file; NULL */
	int report_fd;      /* -1 */

	/* guard */
	const char *state_file;
	int64_t fence; /* --fence, else DLOCK_FENCE, from 1 on; with --force only that holder, 0:
			* any
			*/

	/* hold */
	int pid; /* 0: the shell that called us */
	bool print;

	/* renew, release */
	const char *token; /* NULL: none */
	bool ttl_given;    /* -t: ttl is more than a preset */
	bool force;

	/* status */
	bool json;
	bool openmetrics;
	bool watch;
	nanos interval;         /* between two looks; 0: not given */
	nanos succeeded_within; /* asks for no more than that; 0: not given */
	char **operands;        /* the words behind the command word that are no options */
	size_t operand_count;

	const char *warnings[OPTIONS_WARNINGS]; /* about the configuration, to be said once */
	size_t warning_count;

	nanos started; /* when dlock began: -w counts from here */

	/* where the above came from; of no use to the commands */
	const char *config;        /* --config: the one file to read */
	const char *profile;       /* --profile: the section of it */
	const char *password_file; /* from the configuration */
	const char *shell_string;  /* -c */
	void **kept;               /* owned, and so is each: what strings above may point to */
	size_t kept_count;
};

/* Wipes the password and frees what the options own. */
void options_close(struct options *options);

/* Hands memory over to the options, which free it when they are closed. Returns it; NULL when it
 * is NULL or memory is short (it is then freed). */
void *options_keep(struct options *options, void *memory);

/* If the server has a password, this process leaves no core file from now on, however it dies. For
 * commands that start no other; those that do give the limit back (caller_state_keep_secret). */
void options_guard_password(const struct options *options);
