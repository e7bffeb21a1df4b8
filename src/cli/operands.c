#include "cli/operands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "cli/command.h"
#include "cli/hint.h"
#include "cli/option_table.h"
#include "cli/options.h"
#include "lock/name.h"
#include "lock/services.h"
#include "lock/token.h"

#define HOST_SIZE 256 /* HOST_NAME_MAX is 64 on Linux */

static bool check_name(const char *name, struct failure *failure)
{
	const char *fault = services_name_fault(name);

	if (fault == NULL)
		return true;
	/* A URL may hold a password, and it was meant for something else. */
	if (strstr(name, "://") != NULL)
		return failure_set(
			failure, EXIT_USAGE, "the lock NAME %s; that goes with -S", fault);
	return failure_set(failure, EXIT_USAGE, "the lock NAME %s: '%.100s'", fault, name);
}

/* HOST/NAME, for --per-host. */
static bool add_host(struct options *options, const char **name, struct failure *failure)
{
	char host[HOST_SIZE] = "";
	char *longer;

	if (gethostname(host, sizeof(host) - 1) != 0)
		return failure_set(failure, EXIT_SYSTEM, "gethostname: %m");
	if (asprintf(&longer, "%s/%s", host, *name) == -1)
		longer = NULL;
	*name = options_keep(options, longer);
	if (*name == NULL)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	return check_name(*name, failure);
}

/* Checks it, and makes it this host's own if that is wanted. */
static bool settle_name(struct options *options, const char **name, struct failure *failure)
{
	return check_name(*name, failure) &&
	       (!options->per_host || add_host(options, name, failure));
}

static bool take_name(struct options *options, struct failure *failure)
{
	if (options->operand_count == 0)
		return failure_set(failure, EXIT_USAGE, "no lock NAME given; see dlock --help");
	options->name = *options->operands++;
	options->operand_count--;
	for (size_t i = 0; i < options->also_count; i++)
		if (!settle_name(options, &options->also[i], failure))
			return false;
	return settle_name(options, &options->name, failure);
}

/* -c STRING right after NAME: exactly one argument, as flock(1) has it. */
static bool take_shell_string(struct options *options, struct failure *failure)
{
	const char *word = options->operand_count > 0 ? options->operands[0] : "";

	if (strcmp(word, "-c") != 0 && strcmp(word, "--command") != 0)
		return true;
	if (options->operand_count < 2)
		return failure_set(failure, EXIT_USAGE, "--command lacks its argument");
	if (options->shell_string != NULL)
		return failure_set(failure, EXIT_USAGE, "--command is given twice");
	options->shell_string = options->operands[1];
	options->operands += 2;
	options->operand_count -= 2;
	return true;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL || slash[1] == '\0' ? path : slash + 1;
}

/* The base name of the string's first word; NULL if a shell has to say what that is. */
static const char *find_first_word(struct options *options)
{
	const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./";
	const char *start = options->shell_string + strspn(options->shell_string, " \t\n");
	size_t length = strspn(start, plain);
	char *word;

	if (length == 0 || strchr(" \t\n;&|<>", start[length]) == NULL)
		return NULL;
	word = options_keep(options, strndup(start, length));
	return word == NULL ? NULL : base_name(word);
}

/* $SHELL; a user that may not log in has one that runs nothing. */
static const char *find_shell(void)
{
	const char *shell = getenv("SHELL");
	const char *name = shell == NULL ? "" : base_name(shell);

	if (*name == '\0' || strcmp(name, "nologin") == 0 || strcmp(name, "false") == 0)
		return "/bin/sh";
	return shell;
}

/* SHELL -c STRING. */
static bool take_shell(struct options *options, struct failure *failure)
{
	static char option[] = "-c";
	char **argv = options_keep(options, calloc(4, sizeof(*argv)));

	if (argv == NULL)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	if (options->operand_count > 0)
		return failure_set(failure, EXIT_USAGE,
			"--command takes one argument, and nothing may follow: '%.100s'",
			options->operands[0]);
	argv[0] = (char *)find_shell();
	argv[1] = option;
	argv[2] = (char *)options->shell_string;
	options->argv = argv;
	if (options->label == NULL)
		options->label = find_first_word(options);
	return true;
}

/* [--] COMMAND [ARG]...; false: there is none. */
static bool take_command(struct options *options)
{
	if (options->operand_count > 0 && strcmp(options->operands[0], "--") == 0) {
		options->operands++;
		options->operand_count--;
	}
	options->argv = options->operands;
	return options->operand_count > 0;
}

/* dlock -n 9: flock's way to lock a file descriptor of a script. */
static bool check_descriptor(const struct options *options, struct failure *failure)
{
	const char *name = options->operand_count == 1 ? options->operands[0] : "";

	if (options->shell_string != NULL || *name == '\0' ||
		name[strspn(name, "0123456789")] != '\0')
		return true;
	return failure_set(failure, EXIT_USAGE,
		"'%.100s' is no file descriptor but a lock NAME, without a COMMAND; "
		"for the rest of a script there is dlock hold",
		name);
}

bool operands_take_run(struct options *options, struct failure *failure)
{
	const char *near;

	if (!check_descriptor(options, failure) || !take_name(options, failure) ||
		!take_shell_string(options, failure))
		return false;
	if (options->shell_string != NULL) {
		if (!take_shell(options, failure))
			return false;
	} else if (!take_command(options)) {
		near = hint_command(options->command, options->name);
		return failure_set(failure, EXIT_USAGE,
			"no COMMAND given for the lock NAME '%.100s'%s%s%s", options->name,
			near != NULL ? "; did you mean dlock " : "", near != NULL ? near : "",
			near != NULL ? "?" : "");
	}
	if (options->label == NULL)
		options->label = base_name(options->argv[0]);
	return true;
}

static bool take_nothing_more(const struct options *options, struct failure *failure)
{
	return options->operand_count == 0 ||
	       failure_set(failure, EXIT_USAGE, "nothing may follow here: '%.100s'",
		       options->operands[0]);
}

bool operands_take_name(struct options *options, struct failure *failure)
{
	return take_name(options, failure) && take_nothing_more(options, failure);
}

static bool is_fence(const char *text)
{
	return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Takes the line that `acquire` printed, as one word or as two: the token proves all, so the fence
 * is passed over. */
static bool take_token_and_fence(struct options *options, struct failure *failure)
{
	char *token = options_keep(options, strdup(*options->operands++));
	char *fence = token == NULL ? NULL : strchr(token, ' ');
	const char *fault;

	options->operand_count--;
	if (token == NULL)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	if (fence != NULL && is_fence(fence + 1)) {
		*fence = '\0';
	} else if (options->operand_count > 0 && is_fence(options->operands[0])) {
		options->operands++;
		options->operand_count--;
	}
	options->token = token;
	fault = token_fault(token);
	return fault == NULL ||
	       failure_set(failure, EXIT_USAGE, "the TOKEN %s: '%.150s'", fault, token);
}

static bool take_token(struct options *options, struct failure *failure)
{
	char *token;

	if (strcmp(options->operands[0], "-") != 0)
		return take_token_and_fence(options, failure);
	options->operands++;
	options->operand_count--;
	options->token = token = options_keep(options, malloc(LOCK_TOKEN_SIZE));
	if (token == NULL)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	return token_read(STDIN_FILENO, token, failure);
}

bool operands_take_renew(struct options *options, struct failure *failure)
{
	if (!take_name(options, failure))
		return false;
	if (options->operand_count == 0)
		return failure_set(failure, EXIT_USAGE, "no TOKEN given for the lock NAME '%.100s'",
			options->name);
	return take_token(options, failure) && take_nothing_more(options, failure);
}

bool operands_take_release(struct options *options, struct failure *failure)
{
	if (!take_name(options, failure))
		return false;
	if (options->fence > 0 && !options->force)
		return failure_set(failure, EXIT_USAGE, "--fence goes with --force");
	if (options->operand_count > 0 && !options->force && !take_token(options, failure))
		return false;
	return take_nothing_more(options, failure);
}

static bool take_fence(struct options *options, struct failure *failure)
{
	const struct option_row *row = option_by_name("fence");
	const char *text = getenv("DLOCK_FENCE");

	if (options->fence > 0)
		return true;
	if (text == NULL || *text == '\0')
		return failure_set(failure, EXIT_USAGE,
			"no fencing token given: by --fence, or by DLOCK_FENCE as dlock sets it");
	return row->set(row, text, options, failure) ||
	       failure_set(failure, EXIT_USAGE, "DLOCK_FENCE: %s", failure->text);
}

bool operands_take_guard(struct options *options, struct failure *failure)
{
	if (options->operand_count == 0 || *options->operands[0] == '\0')
		return failure_set(
			failure, EXIT_USAGE, "no STATEFILE given; see dlock guard --help");
	options->state_file = *options->operands++;
	options->operand_count--;
	if (!take_command(options))
		return failure_set(failure, EXIT_USAGE,
			"no COMMAND given for the STATEFILE '%.100s'", options->state_file);
	return take_fence(options, failure);
}

bool operands_take_none(struct options *options, struct failure *failure)
{
	if (options->operand_count == 0)
		return true;
	return failure_set(failure, EXIT_USAGE, "dlock %s takes options only: '%.100s'",
		options->command->word, options->operands[0]);
}

bool operands_take_status(struct options *options, struct failure *failure)
{
	if (options->json && options->openmetrics)
		return failure_set(
			failure, EXIT_USAGE, "--json and --openmetrics are two forms: give one");
	if (options->watch && (options->json || options->openmetrics))
		return failure_set(failure, EXIT_USAGE,
			"--watch is for people: without --json and --openmetrics");
	if (options->interval > 0 && !options->watch)
		return failure_set(
			failure, EXIT_USAGE, "--interval says how often --watch looks: give both");
	if (options->succeeded_within > 0 &&
		(options->json || options->openmetrics || options->watch ||
			options->operand_count != 1 || name_is_glob(options->operands[0])))
		return failure_set(failure, EXIT_USAGE,
			"--succeeded-within takes one NAME, and no form of showing it");
	for (size_t i = 0; i < options->operand_count; i++)
		if (!name_is_glob(options->operands[i]) &&
			!check_name(options->operands[i], failure))
			return false;
	return true;
}
