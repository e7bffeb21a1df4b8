#include "cli/options_read.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failure.h"
#include "base/message.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/option_table.h"
#include "cli/options.h"
#include "cli/other_program.h"
#include "lock/service.h"
#include "net/password.h"
#include "net/server.h"

#define SYSTEM_FILE "/etc/dlock.conf"
#define PLACE_SIZE  256 /* "FILE:LINE: "; a longer one is cut */
#define GRACE_UNSET (-1)

struct reading {
	struct options *options;
	const struct command *commands;
	struct failure *failure;
	struct arguments arguments;
	const char *user_file; /* the user's own, from when it is read on; NULL: another one is */
	const char *system_server, *user_server; /* as the two files name it; NULL: not at all, or
						  * it does not count */
	const char *open_file;  /* the last that was found to give a password away */
	char place[PLACE_SIZE]; /* the line of a file that last set the TTL or the grace */
	bool profile_found;
};

static void warn(struct options *options, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Memory that is short is said elsewhere. */
static void warn(struct options *options, const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) == -1)
		text = NULL;
	va_end(arguments);
	text = options_keep(options, text);
	if (text != NULL && options->warning_count < OPTIONS_WARNINGS)
		options->warnings[options->warning_count++] = text;
}

/* Warns, once for each file, of a password that any user may read there; its group may be meant to.
 */
static void check_secrecy(struct reading *reading, const struct config_entry *entry)
{
	struct stat status;
	size_t from, length;

	if (!url_find_password(entry->value, &from, &length) || length == 0 ||
		stat(entry->path, &status) != 0 || (status.st_mode & S_IROTH) == 0 ||
		(reading->open_file != NULL && strcmp(reading->open_file, entry->path) == 0))
		return;
	reading->open_file = options_keep(reading->options, strdup(entry->path));
	warn(reading->options,
		"%s:%d: any user may read this password (mode %04o): chmod o-r, or a "
		"password-file",
		entry->path, entry->line, (unsigned)status.st_mode & 07777);
}

/* Warns if the user's file names another server than the host's: a user that locks elsewhere than
 * all others of this host may not know it. */
static void check_choice(const struct reading *reading)
{
	if (reading->system_server != NULL && reading->user_server != NULL &&
		strcmp(reading->system_server, reading->user_server) != 0)
		warn(reading->options, "%s: its server is used, %s, not that of %s",
			reading->user_file, reading->options->server->text, SYSTEM_FILE);
}

static bool set_presets(struct reading *reading)
{
	struct options *options = reading->options;

	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++)
		if (row->preset != NULL && !row->set(row, row->preset, options, reading->failure))
			return false;
	return true;
}

static bool sets(const struct option_row *row, size_t field)
{
	return row->field == field;
}

/* Reads a key of a file. A key of another profile is checked all the same. */
static bool take_entry(const struct config_entry *entry, void *context, struct failure *failure)
{
	struct reading *reading = context;
	const char *profile = reading->options->profile;
	bool chosen = profile != NULL && strcmp(entry->section, profile) == 0;
	const struct option_row *row = option_by_name(entry->key);
	struct options unused = {0};
	char *value;
	bool done;

	if (row == NULL || !row->configurable)
		return failure_set(failure, EXIT_CONFIG, "%s:%d: unknown key '%.100s'", entry->path,
			entry->line, entry->key);
	value = options_keep(reading->options, strdup(entry->value));
	if (value == NULL)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	reading->profile_found |= chosen;
	chosen |= *entry->section == '\0';
	if (sets(row, offsetof(struct options, server))) {
		check_secrecy(reading, entry);
		if (chosen)
			*(reading->user_file ? &reading->user_server : &reading->system_server) =
				value;
	}
	if (chosen && sets(row, offsetof(struct options, settle)))
		reading->options->settle_given = true;
	if (chosen && (sets(row, offsetof(struct options, grace)) ||
			      sets(row, offsetof(struct options, ttl))))
		snprintf(reading->place, sizeof(reading->place), "%s:%d: ", entry->path,
			entry->line);
	done = row->set(row, value, chosen ? reading->options : &unused, failure);
	options_close(&unused);
	return done || failure_set(failure, EXIT_CONFIG, "%s:%d: %s: %s", entry->path, entry->line,
			       row->names[0], failure->text);
}

/* The user's own file may lie in a folder that dlock, run as another user, may not enter. */
static bool read_user_file(struct reading *reading)
{
	const char *base = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");
	const char *below = "/dlock.conf";
	char path[PATH_MAX];

	if (base == NULL || *base != '/') {
		base = home;
		below = "/.config/dlock.conf";
	}
	/* If a folder has a name too long to open, no file is in it either. */
	if (base == NULL || *base != '/' || strlcpy(path, base, sizeof(path)) >= sizeof(path) ||
		strlcat(path, below, sizeof(path)) >= sizeof(path))
		return true;
	reading->user_file = options_keep(reading->options, strdup(path));
	return config_file_read(path, false, true, take_entry, reading, reading->failure);
}

static bool read_files(struct reading *reading)
{
	const struct options *options = reading->options;
	bool done;

	if (options->config != NULL)
		done = config_file_read(
			options->config, true, false, take_entry, reading, reading->failure);
	else
		done = config_file_read(
			       SYSTEM_FILE, false, false, take_entry, reading, reading->failure) &&
		       read_user_file(reading);
	if (done && options->profile != NULL && !reading->profile_found)
		return failure_set(reading->failure, EXIT_CONFIG,
			"--profile: the configuration has no section [%.100s] with keys in it",
			options->profile);
	return done;
}

static bool is_given(const struct reading *reading, size_t field)
{
	for (size_t i = 0; i < reading->arguments.option_count; i++)
		if (sets(reading->arguments.options[i].row, field))
			return true;
	return false;
}

static bool read_environment(struct reading *reading)
{
	const struct option_row *row = option_by_name("server");
	const char *value = getenv("DLOCK_SERVER");

	if ((row->commands & reading->options->command->bit) == 0)
		return true;
	if (is_given(reading, offsetof(struct options, server)) || value == NULL || *value == '\0')
		return true;
	reading->user_server = NULL;
	return row->set(row, value, reading->options, reading->failure) ||
	       failure_set(reading->failure, reading->failure->code, "DLOCK_SERVER: %s",
		       reading->failure->text);
}

static bool take_argument(struct reading *reading, const struct argument *argument)
{
	const struct option_row *row = argument->row;
	struct failure *failure = reading->failure;

	if (sets(row, offsetof(struct options, server)))
		reading->user_server = NULL;
	return row->set(row, argument->text, reading->options, failure) ||
	       failure_set(failure, failure->code, "--%s: %s", row->names[0], failure->text);
}

/* The options that name the receivers of a report count even if the report is that another option
 * is wrong. */
static void take_audience(struct reading *reading)
{
	struct failure unheard;

	for (size_t i = 0; i < reading->arguments.option_count; i++) {
		const struct argument *argument = &reading->arguments.options[i];

		if (argument->row->early == EARLY_AUDIENCE)
			argument->row->set(
				argument->row, argument->text, reading->options, &unheard);
	}
}

static bool take_early_arguments(struct reading *reading)
{
	for (size_t i = 0; i < reading->arguments.option_count; i++) {
		const struct argument *argument = &reading->arguments.options[i];

		if (argument->row->early != EARLY_NOT && !take_argument(reading, argument))
			return false;
	}
	return true;
}

/* All of them, the early ones again: -q and -v count from the preset, whatever a file says. */
static bool take_arguments(struct reading *reading)
{
	const struct arguments *arguments = &reading->arguments;
	struct options *options = reading->options;

	if (is_given(reading, offsetof(struct options, verbosity)))
		options->verbosity = MESSAGE_WARNING;
	for (size_t i = 0; i < arguments->option_count; i++)
		if (!take_argument(reading, &arguments->options[i]))
			return false;
	options->ttl_given = is_given(reading, offsetof(struct options, ttl));
	options->settle_named = is_given(reading, offsetof(struct options, settle));
	options->settle_given |= options->settle_named;
	if (options->once == NULL && is_given(reading, offsetof(struct options, once_for)))
		return failure_set(reading->failure, EXIT_USAGE,
			"--once-for says how long a success is kept for --once ID, which is not "
			"given");
	return true;
}

/* Between the stop signal and SIGKILL there must be time for both before the lock runs out, and
 * for a renewal that fails before that. */
static bool settle_grace(struct reading *reading)
{
	struct options *options = reading->options;
	nanos most = options->ttl / 3 < OPTIONS_GRACE_MOST ? options->ttl / 3 : OPTIONS_GRACE_MOST;
	bool in_file = !is_given(reading, offsetof(struct options, grace)) && !options->ttl_given;

	if (options->grace == GRACE_UNSET)
		options->grace = most;
	if (options->grace <= most || (options->command->bit & (COMMAND_ACQUIRE | COMMAND_RENEW)))
		return true; /* these two have nothing to stop */
	return failure_set(reading->failure, in_file ? EXIT_CONFIG : EXIT_USAGE,
		"%sa grace of %" PRId64 "ms is more than %" PRId64
		"ms, the smaller of 10s and a third of the TTL",
		in_file ? reading->place : "", options->grace / NANOS_PER_MS, most / NANOS_PER_MS);
}

/* The password of a server whose URL names none: from DLOCK_PASSWORD, its service's own variable,
 * or the first line of the file, which is read again for each later connection (net/password.h).
 * False with failure: there is one that cannot be had. */
static bool find_password(struct server *server, const char *file, struct failure *failure)
{
	const char *variables[] = {"DLOCK_PASSWORD", server->service->password_variable};

	if (!variables[1])
		return true;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);

		if (value == NULL || *value == '\0')
			continue;
		server->password = strdup(value);
		return server->password != NULL ||
		       failure_set(failure, EXIT_SYSTEM, "out of memory");
	}
	if (file == NULL)
		return true;
	server->password_file = strdup(file); /* without it the password stays as it is now */
	server->password = password_read(file, failure);
	return server->password != NULL;
}

/* There is no server to fall back on: a cron job that has lost its environment must not lock
 * against the wrong one. */
static bool settle_server(struct reading *reading)
{
	struct options *options = reading->options;
	unsigned takers = option_by_name("server")->commands;

	if ((takers & options->command->bit) == 0)
		return true;
	if (options->command->bit == COMMAND_RELEASE && options->token == NULL && !options->force)
		return true; /* a keeper is asked, no server */
	if (options->server == NULL)
		return failure_set(reading->failure, EXIT_CONFIG,
			"no server is named: by -S URL, by DLOCK_SERVER, or by 'server = URL' in "
			"%s (-S file: locks on this host alone)",
			options->config != NULL ? options->config : SYSTEM_FILE);
	check_choice(reading);
	if (options->server->password == NULL &&
		!find_password(options->server, options->password_file, reading->failure))
		return false;
	if (options->server->user != NULL && options->server->password == NULL)
		server_hide_user(options->server);
	return true;
}

/* A token or a password may lie where it can be read only once. */
static bool take_rest(struct reading *reading)
{
	struct options *options = reading->options;

	if (other_program_is_needed(options))
		return true;
	return options->command->take(options, reading->failure) && settle_grace(reading) &&
	       settle_server(reading);
}

static bool read_all(struct reading *reading, int argc, char **argv, bool *done)
{
	struct options *options = reading->options;
	struct arguments *arguments = &reading->arguments;

	if (!arguments_read(arguments, reading->commands, argc, argv, reading->failure)) {
		take_audience(reading);
		return false;
	}
	*done = arguments->done;
	if (*done)
		return true;
	options->command = arguments->command;
	options->operands = arguments->operands;
	options->operand_count = arguments->operand_count;
	return set_presets(reading) && take_early_arguments(reading) && read_files(reading) &&
	       read_environment(reading) && take_arguments(reading) && take_rest(reading);
}

/* Passwords out of what ps shows; unless another program is still to read them. */
static void scrub(const struct reading *reading, bool good)
{
	const struct arguments *arguments = &reading->arguments;

	if (good && other_program_is_needed(reading->options))
		return;
	for (size_t i = 0; i < arguments->option_count; i++) {
		const struct argument *argument = &arguments->options[i];

		if (argument->row->field == offsetof(struct options, server) && argument->text)
			server_scrub(argument->text);
	}
}

bool options_read(struct options *options, const struct command *commands, int argc, char **argv,
	bool *done, struct failure *failure)
{
	struct reading reading = {.options = options, .commands = commands, .failure = failure};
	bool good;

	*options = (struct options){.started = clock_now(),
		.wait = OPTIONS_WAIT_FOREVER,
		.grace = GRACE_UNSET,
		.verbosity = MESSAGE_WARNING,
		.report_fd = -1};
	*failure = (struct failure){.code = EXIT_DONE};
	*done = false;
	good = read_all(&reading, argc, argv, done);
	scrub(&reading, good);
	arguments_close(&reading.arguments);
	return good;
}
