#include "cli/option_table.h"

#include <limits.h>
#include <string.h>

#include "cli/command.h"
#include "cli/option_values.h"
#include "cli/options.h"
#include "lock/name.h"

#define RUN    COMMAND_RUN
#define STATUS COMMAND_STATUS
#define GUARD  COMMAND_GUARD
#define HOLD   COMMAND_HOLD
#define TAKES  (RUN | HOLD | COMMAND_ACQUIRE)
#define RENEW  COMMAND_RENEW
#define GIVES  COMMAND_RELEASE
#define NAMES  (TAKES | RENEW | GIVES)
#define CHECK  COMMAND_CHECK
#define SERVED (NAMES | STATUS | CHECK)
#define ALL    (SERVED | GUARD)

#define YEAR (365 * 24 * 3600 * NANOS_PER_SEC)

#define FIELD(name) .field = offsetof(struct options, name)

static const char *const on_lost_choices[] = {
	[ON_LOST_STOP] = "stop", [ON_LOST_WARN] = "warn", NULL};

static const char *const if_unreachable_choices[] = {
	[IF_UNREACHABLE_FAIL] = "fail", [IF_UNREACHABLE_SKIP] = "skip", NULL};

static const char *path_fault(const char *text)
{
	return *text == '/' ? NULL : "is no absolute path";
}

/* A table is read by its rows. */
/* clang-format off */
const struct option_row option_rows[] = {
	/* Waiting, and for how long. */
	{.letters = "n", .names = {"nonblock", "nb", "nonblocking"},
		.help = "do not wait for the lock",
		.commands = TAKES, .configurable = true, .set = option_set_zero, FIELD(wait)},
	{.letters = "w", .names = {"wait", "timeout"}, .argument = "DURATION",
		.help = "wait at most that long; 0 is -n", .otherwise = "for ever",
		.commands = TAKES, .configurable = true,
		.set = option_set_duration, .most = INT64_MAX, FIELD(wait)},
	{.letters = "E", .names = {"conflict-exit-code"}, .argument = "NUMBER",
		.help = "exit code when the lock was not to be had", .preset = "1",
		.commands = TAKES, .configurable = true,
		.set = option_set_number, .most = 255, FIELD(conflict_exit)},

	/* Whether to run at all. */
	{.names = {"cooldown"}, .argument = "DURATION",
		.help = "skip if the last success began less than that before we asked",
		.commands = RUN, .configurable = true,
		.set = option_set_duration, .most = YEAR, FIELD(cooldown)},
	{.names = {"once"}, .argument = "ID",
		.help = "skip when a success under NAME and ID is on record",
		.commands = RUN, .configurable = true, .set = option_set_text, .fault = name_id_fault, FIELD(once)},
	{.names = {"once-for"}, .argument = "DURATION",
		.help = "how long a success is kept for --once", .preset = "7d",
		.commands = RUN, .configurable = true,
		.set = option_set_duration, .least = NANOS_PER_SEC, .most = YEAR, FIELD(once_for)},
	{.names = {"if-unreachable"}, .argument = "fail|skip",
		.help = "what to do when no server can be reached", .preset = "fail",
		.commands = RUN, .configurable = true, .completion = COMPLETE_CHOICE,
		.set = option_set_choice, .choices = if_unreachable_choices, FIELD(if_unreachable)},

	/* The lock. */
	{.letters = "xe", .names = {"exclusive"},
		.help = "an exclusive lock: the default",
		.commands = TAKES, .configurable = true,
		.set = option_set_constant, .least = OPTIONS_EXCLUSIVE, FIELD(sharers)},
	{.letters = "s", .names = {"shared"},
		.help = "a shared lock: others may share it too",
		.commands = TAKES, .configurable = true,
		.set = option_set_constant, .least = OPTIONS_SHARED, FIELD(sharers)},
	{.names = {"permits"}, .argument = "NUMBER",
		.help = "as many may hold the lock at a time; DLOCK_SLOT tells them apart",
		.commands = TAKES, .configurable = true,
		.set = option_set_number, .least = 1, .most = 1000000, FIELD(sharers)},
	{.names = {"priority"}, .argument = "NUMBER",
		.help = "goes ahead: a point counts as a minute of waiting", .preset = "0",
		.commands = TAKES, .configurable = true,
		.set = option_set_number, .least = -1000, .most = 1000, FIELD(priority)},
	{.names = {"also"}, .argument = "NAME",
		.help = "take this lock too, all or none; any number of times",
		.commands = RUN, .configurable = true, .completion = COMPLETE_LOCK,
		.set = option_set_also},
	{.letters = "t", .names = {"ttl"}, .argument = "DURATION",
		.help = "how long the lock outlives a dead host", .preset = "60s",
		.commands = TAKES | RENEW | CHECK, .configurable = true,
		.set = option_set_duration, .least = NANOS_PER_SEC, .most = INT64_MAX, FIELD(ttl)},
	{.letters = "S", .names = {"server"}, .argument = "URL",
		.help = "the lock server",
		.commands = SERVED, .configurable = true, .completion = COMPLETE_SERVER,
		.set = option_set_server, FIELD(server)},
	{.names = {"password-file"}, .argument = "FILE",
		.help = "holds the server's password",
		.configurable = true, .completion = COMPLETE_FILE,
		.set = option_set_text, .fault = path_fault, FIELD(password_file)},
	{.names = {"prefix"}, .argument = "TEXT",
		.help = "of the keys in the server", .preset = "lock:",
		.commands = SERVED, .configurable = true, .set = option_set_text, .fault = name_prefix_fault, FIELD(prefix)},
	{.names = {"wait-replicas"}, .argument = "NUMBER[:DURATION]",
		.help = "so many replicas must have the lock, within that (default 1s)",
		.commands = TAKES, .configurable = true, .set = option_set_replicas},
	{.names = {"at-least"}, .argument = "DURATION",
		.help = "keep the lock that long from its grant, though COMMAND ends sooner",
		.commands = TAKES, .configurable = true,
		.set = option_set_duration, .most = YEAR, FIELD(at_least)},
	{.names = {"settle"}, .argument = "DURATION",
		.help = "take no lock from a server that has been up for less; 0 is off",
		.preset = "3s",
		.commands = TAKES | CHECK, .configurable = true,
		.set = option_set_duration, .most = YEAR, FIELD(settle)},
	{.names = {"per-host"},
		.help = "the lock is this host's own: NAME becomes HOST/NAME",
		.commands = NAMES, .configurable = true, .set = option_set_flag, FIELD(per_host)},
	{.names = {"label"}, .argument = "TEXT",
		.help = "what status shows for this holder", .otherwise = "COMMAND's base name",
		.commands = TAKES, .configurable = true, .set = option_set_label, FIELD(label)},

	/* COMMAND. */
	{.letters = "c", .names = {"command"}, .argument = "STRING",
		.help = "run a string of the shell ($SHELL, else /bin/sh) as COMMAND",
		.commands = RUN, .completion = COMPLETE_COMMAND,
		.set = option_set_text, FIELD(shell_string)},
	{.letters = "o", .names = {"close"},
		.help = "release the lock when COMMAND ends, though children of it live on",
		.commands = RUN, .configurable = true, .set = option_set_flag, FIELD(close)},
	{.names = {"max-run"}, .argument = "DURATION",
		.help = "stop COMMAND after that long, and exit with 124", .otherwise = "no limit",
		.commands = RUN, .configurable = true,
		.set = option_set_duration, .most = INT64_MAX, FIELD(max_run)},
	{.names = {"stop-signal"}, .argument = "SIGNAL",
		.help = "how COMMAND is asked to stop", .preset = "TERM",
		.commands = RUN | HOLD, .configurable = true, .completion = COMPLETE_SIGNAL,
		.set = option_set_signal, FIELD(stop_signal)},
	{.names = {"grace"}, .argument = "DURATION",
		.help = "from the stop signal to SIGKILL",
		.otherwise = "10s or a third of the TTL, the smaller",
		.commands = RUN | HOLD, .configurable = true,
		.set = option_set_duration, .most = INT64_MAX, FIELD(grace)},
	{.names = {"on-lost"}, .argument = "stop|warn",
		.help = "what to do when the lock cannot be proved any longer", .preset = "stop",
		.commands = RUN | HOLD, .configurable = true, .completion = COMPLETE_CHOICE,
		.set = option_set_choice, .choices = on_lost_choices, FIELD(on_lost)},

	{.names = {"notify-ready"},
		.help = "tell systemd at the grant that the service is ready; else COMMAND does",
		.commands = RUN, .configurable = true, .set = option_set_flag, FIELD(notify_ready)},

	/* The rest of a script. */
	{.names = {"pid"}, .argument = "PID",
		.help = "the process that holds the lock", .otherwise = "the shell that calls dlock",
		.commands = HOLD, .set = option_set_number, .least = 1, .most = INT_MAX, FIELD(pid)},
	{.names = {"print"},
		.help = "print DLOCK_NAME, DLOCK_TOKEN and DLOCK_FENCE as a shell reads them",
		.commands = HOLD, .set = option_set_flag, FIELD(print)},

	/* The lock of another holder. */
	{.names = {"force"},
		.help = "release the lock by force, from any holder",
		.commands = GIVES, .set = option_set_flag, FIELD(force)},

	/* The resource's side, and the lock of another holder. */
	{.names = {"fence"}, .argument = "NUMBER",
		.help = "the fencing token; with --force only its holder", .otherwise = "DLOCK_FENCE, with --force any",
		.commands = GUARD | GIVES, .set = option_set_token, .least = 1, .most = INT64_MAX, FIELD(fence)},

	/* Output. */
	{.names = {"json"},
		.help = "JSON instead of a table",
		.commands = STATUS | CHECK, .set = option_set_flag, FIELD(json)},
	{.names = {"openmetrics"},
		.help = "metrics for Prometheus, of locks that are free too",
		.commands = STATUS, .set = option_set_flag, FIELD(openmetrics)},
	{.names = {"watch"},
		.help = "the table, redrawn in place on a terminal until q is pressed",
		.commands = STATUS, .set = option_set_flag, FIELD(watch)},
	{.names = {"succeeded-within"}, .argument = "DURATION",
		.help = "exit with 0 if COMMAND last succeeded within that, else with 1",
		.commands = STATUS,
		.set = option_set_duration, .least = NANOS_PER_MS, .most = YEAR,
		FIELD(succeeded_within)},
	{.names = {"interval"}, .argument = "DURATION",
		.help = "how often --watch looks", .otherwise = "1s",
		.commands = STATUS,
		.set = option_set_duration, .least = 100 * NANOS_PER_MS, .most = YEAR, FIELD(interval)},
	{.letters = "q", .names = {"quiet"},
		.help = "no warnings; twice: no messages at all",
		.commands = ALL, .configurable = true,
		.set = option_set_step, .least = -1, FIELD(verbosity), .early = EARLY_SETTING},
	{.letters = "v", .names = {"verbose"},
		.help = "more messages; twice: each renewal, too",
		.commands = ALL, .configurable = true,
		.set = option_set_step, .least = 1, FIELD(verbosity), .early = EARLY_SETTING},
	{.names = {"syslog"},
		.help = "messages to syslog too",
		.commands = ALL, .configurable = true, .set = option_set_flag, FIELD(syslog), .early = EARLY_AUDIENCE},
	{.names = {"report"}, .argument = "FILE",
		.help = "write the outcome there, as a JSON object",
		.commands = RUN, .configurable = true, .completion = COMPLETE_FILE,
		.set = option_set_text, FIELD(report), .early = EARLY_AUDIENCE},
	{.names = {"report-fd"}, .argument = "NUMBER",
		.help = "the same to an open file descriptor",
		.commands = RUN, .configurable = true,
		.set = option_set_number, .most = INT_MAX, FIELD(report_fd), .early = EARLY_AUDIENCE},

	/* Where options come from. */
	{.names = {"profile"}, .argument = "NAME",
		.help = "a section of the configuration",
		.commands = ALL, .completion = COMPLETE_PROFILE, .set = option_set_text, FIELD(profile), .early = EARLY_SETTING},
	{.names = {"config"}, .argument = "FILE",
		.help = "another configuration file than the usual ones",
		.commands = ALL, .completion = COMPLETE_FILE, .set = option_set_text, FIELD(config), .early = EARLY_SETTING},
	{.letters = "h", .names = {"help"}, .help = "show this", .commands = ALL, .show = SHOW_HELP},
	{.letters = "V", .names = {"version"}, .help = "show the version",
		.commands = ALL, .show = SHOW_VERSION},

	/* flock(1) has these. */
	{.letters = "u", .names = {"unlock"},
		.instead = "a lock is released when COMMAND ends, or by dlock release"},
	{.letters = "F", .names = {"no-fork"},
		.instead = "dlock has to stay beside COMMAND, or nothing would renew the lock"},
	{.names = {"fd"},
		.instead = "a lock has no file descriptor: for the rest of a script there is dlock hold"},
	{.names = {"fcntl"},
		.instead = "a lock is a key in a server, of one kind only: leave the option out"},
	{.names = {"start"},
		.instead = "a lock has no byte ranges: give each part a lock NAME of its own"},
	{.names = {"length"},
		.instead = "a lock has no byte ranges: give each part a lock NAME of its own"},
	{.names = {NULL}},
};
/* clang-format on */

const struct option_row *option_by_name(const char *name)
{
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++) {
		for (const char *const *own = row->names; *own != NULL; own++)
			if (strcmp(name, *own) == 0)
				return row;
	}
	return NULL;
}

const struct option_row *option_by_letter(int letter)
{
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++)
		if (row->letters != NULL && strchr(row->letters, letter) != NULL)
			return row;
	return NULL;
}
