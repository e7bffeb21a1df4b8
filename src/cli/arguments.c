#include "cli/arguments.h"

#include <bsd/stdlib.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/option_table.h"

#define LETTERS_MOST 128 /* "+:" and each letter with up to two ':' */
#define LONGS_MOST   128 /* long names */
#define ROW_BASE     256 /* getopt's values from here on are rows, below they are letters */

/* The table in the form that getopt_long() wants. */
struct grammar {
	char letters[LETTERS_MOST];
	struct option longs[LONGS_MOST];
};

/* Whether the command line knows the row: as an option, or as one of flock's that it refuses. */
static bool is_on_command_line(const struct option_row *row)
{
	return row->commands != 0 || row->instead != NULL;
}

static void grammar_open(struct grammar *grammar)
{
	char *letter = grammar->letters;
	struct option *next = grammar->longs;

	/* '+': options end at the first operand. ':': what is missing is told apart. */
	letter = stpcpy(letter, "+:");
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++) {
		int takes = row->argument != NULL ? required_argument : no_argument;

		if (!is_on_command_line(row))
			continue;
		if (row->instead != NULL)
			takes = optional_argument; /* whatever follows, the answer is the same */
		for (const char *own = row->letters; own != NULL && *own != '\0'; own++) {
			*letter++ = *own;
			letter = stpcpy(letter, takes == required_argument ? ":" : "");
		}
		for (const char *const *name = row->names; *name != NULL; name++)
			*next++ = (struct option){
				*name, takes, NULL, ROW_BASE + (int)(row - option_rows)};
	}
	*next = (struct option){0};
}

static const struct option_row *grammar_row(int value)
{
	return value < ROW_BASE ? option_by_letter(value) : &option_rows[value - ROW_BASE];
}

static bool add(struct arguments *arguments, const struct option_row *row, char *text)
{
	struct argument *options =
		reallocarray(arguments->options, arguments->option_count + 1, sizeof(*options));

	if (options == NULL)
		return false;
	arguments->options = options;
	options[arguments->option_count++] = (struct argument){row, text};
	return true;
}

/* The long name that was probably meant: one of the command's options. NULL: none is near. */
static const char *nearest_name(const struct command *command, const char *typed, size_t length)
{
	struct nearest nearest;

	nearest_begin(&nearest, typed, length);
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++) {
		if ((row->commands & command->bit) == 0)
			continue;
		for (const char *const *name = row->names; *name != NULL; name++)
			nearest_try(&nearest, *name);
	}
	return nearest.word;
}

/* Whether getopt_long() could not decide between several options. */
static bool is_beginning(const struct grammar *grammar, const char *typed, size_t length)
{
	for (const struct option *option = grammar->longs; option->name != NULL; option++)
		if (strncmp(option->name, typed, length) == 0)
			return true;
	return false;
}

/* argument begins with "--". Nothing after a '=' is quoted: it may be a password. */
static bool refuse_unknown(const struct grammar *grammar, const struct command *command,
	const char *argument, struct failure *failure)
{
	const char *typed = argument + 2;
	size_t length = strcspn(typed, "=");
	const char *nearest;

	if (is_beginning(grammar, typed, length))
		return failure_set(failure, EXIT_USAGE,
			"ambiguous option '--%.*s': several begin like this", (int)length, typed);
	nearest = nearest_name(command, typed, length);
	return failure_set(failure, EXIT_USAGE, "unknown option '--%.*s'%s%s%s", (int)length, typed,
		nearest != NULL ? "; did you mean --" : "", nearest != NULL ? nearest : "",
		nearest != NULL ? "?" : "");
}

/* The word that getopt_long() has stumbled over, with a row or a letter that it names: '?' or ':'.
 */
static bool stumble(int value, struct failure *failure)
{
	const struct option_row *row = grammar_row(optopt);

	if (row == NULL || !is_on_command_line(row))
		return failure_set(failure, EXIT_USAGE, "unknown option '-%c'", optopt);
	if (value == ':')
		return failure_set(failure, EXIT_USAGE, "--%s lacks its argument", row->names[0]);
	return failure_set(failure, EXIT_USAGE, "--%s takes no argument", row->names[0]);
}

/* An option that flock(1) has: says how the same is done here. */
static bool refuse(const struct option_row *row, struct failure *failure)
{
	if (row->letters == NULL)
		return failure_set(failure, EXIT_USAGE, "--%s: %s", row->names[0], row->instead);
	return failure_set(
		failure, EXIT_USAGE, "-%s, --%s: %s", row->letters, row->names[0], row->instead);
}

/* The command of that name. NULL: there is none. */
static const struct command *find_command(const struct command *commands, const char *word)
{
	for (const struct command *command = commands; command->word != NULL; command++)
		if (strcmp(word, command->word) == 0)
			return command;
	return NULL;
}

/* The command that these options belong to. Its word may follow them; without a word it is
 * `run`. */
static const struct command *command_of(const struct arguments *arguments)
{
	const struct command *command = arguments->command;

	if (command == NULL && arguments->operand_count > 0)
		command = find_command(arguments->commands, arguments->operands[0]);
	return command != NULL ? command : &arguments->commands[0];
}

static bool show(const struct arguments *arguments, enum option_show what, struct failure *failure)
{
	if (what == SHOW_VERSION)
		return help_show_version(failure);
	return help_show(arguments->commands, arguments->command, failure);
}

/* `dlock help [COMMAND|server]`, and `dlock version`. */
static bool show_by_word(struct arguments *arguments, struct failure *failure)
{
	const struct command *own = arguments->command;
	size_t count = arguments->operand_count;
	const char *topic = count == 1 ? arguments->operands[0] : "";
	bool plain = count == 0;

	arguments->done = true;
	arguments->command = find_command(arguments->commands, topic);
	if (arguments->option_count == 0 && own->show == SHOW_HELP) {
		if (strcmp(topic, "server") == 0)
			return help_show_server(failure);
		plain |= arguments->command != NULL;
	}
	if (plain && arguments->option_count == 0)
		return show(arguments, own->show, failure);
	return failure_set(failure, EXIT_USAGE,
		"'%s' is a command, and nothing may follow%s; for a lock NAME like that there is "
		"dlock run %s",
		own->word, own->show == SHOW_HELP ? " but a command's word or 'server'" : "",
		own->word);
}

/* Reads the options up to the operands. argv[0] is passed over. After the first that is wrong the
 * others are read all the same: where the failure is to be reported is among them, and so may be
 * the word of the command. */
static bool scan(struct arguments *arguments, const struct grammar *grammar, const char *letters,
	int argc, char **argv, struct failure *failure)
{
	const char *unknown = NULL;
	bool good = true;
	int value;

	opterr = 0;
	optind = 0; /* glibc: begin afresh */
	while ((value = getopt_long(argc, argv, letters, grammar->longs, NULL)) != -1) {
		const struct option_row *row;

		if (value == '?' && optopt == 0) {
			unknown = good ? argv[optind - 1] : unknown;
			good = false;
			continue;
		}
		if (value == '?' || value == ':') {
			good = good && stumble(value, failure);
			continue;
		}
		row = grammar_row(value);
		if (row->instead != NULL) {
			good = good && refuse(row, failure);
			continue;
		}
		if (row->show != SHOW_NOTHING && good) {
			arguments->done = true;
			return show(arguments, row->show, failure);
		}
		if (!add(arguments, row, optarg))
			return failure_set(failure, EXIT_SYSTEM, "out of memory");
	}
	arguments->operands = argv + optind;
	arguments->operand_count = (size_t)(argc - optind);
	if (unknown != NULL)
		return refuse_unknown(grammar, command_of(arguments), unknown, failure);
	return good;
}

/* Every option must be one of the command's. */
static bool check(const struct arguments *arguments, struct failure *failure)
{
	for (size_t i = 0; i < arguments->option_count; i++) {
		const struct option_row *row = arguments->options[i].row;

		if ((row->commands & arguments->command->bit) == 0)
			return failure_set(failure, EXIT_USAGE, "--%s is no option of dlock %s",
				row->names[0], arguments->command->word);
	}
	return true;
}

/* Whether a word is kept for a command, now or later, so that no lock is called that by accident.
 */
static bool is_reserved(const char *word)
{
	/* clang-format off */
	static const char *const reserved[] = {
		"list", "watch", "break", "config", "completion",
	};
	/* clang-format on */

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (strcmp(word, reserved[i]) == 0)
			return true;
	return false;
}

bool arguments_read(struct arguments *arguments, const struct command *commands, int argc,
	char **argv, struct failure *failure)
{
	struct grammar grammar;
	const char *word;

	*arguments = (struct arguments){.commands = commands};
	grammar_open(&grammar);
	if (!scan(arguments, &grammar, grammar.letters, argc, argv, failure))
		return false;
	if (arguments->done)
		return true;
	word = arguments->operand_count > 0 ? arguments->operands[0] : NULL;
	arguments->command = word == NULL ? NULL : find_command(commands, word);
	if (arguments->command != NULL) {
		if (!scan(arguments, &grammar,
			    grammar.letters + (arguments->command->stops ? 0 : 1),
			    (int)arguments->operand_count, arguments->operands, failure))
			return false;
		if (!arguments->done && arguments->command->show != SHOW_NOTHING)
			return show_by_word(arguments, failure);
	} else if (word != NULL && is_reserved(word)) {
		return failure_set(failure, EXIT_USAGE,
			"'%s' is kept for a command; for a lock NAME like that there is dlock "
			"run %s",
			word, word);
	} else {
		arguments->command = &commands[0];
	}
	return arguments->done || check(arguments, failure);
}

void arguments_close(struct arguments *arguments)
{
	free(arguments->options);
	*arguments = (struct arguments){0};
}
