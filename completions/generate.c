/*
 * Makes the completions of a shell from the tables of options and commands:
 *
 *	generate bash|zsh|fish <SKELETON >COMPLETIONS
 *
 * The skeleton, in the shell's own language, knows how to complete; where it has a line "@TABLE@",
 * this program writes what there is to complete. So a new option needs no line in three languages.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/newer_libc.h"
#include "cli/option_table.h"
#include "cli/option_values.h"
#include "commands/commands.h"
#include "lock/services.h"

/* A shell's way to write the tables. */
struct dialect {
	const char *shell;
	void (*write)(void);
};

/* --- What the tables say ------------------------------------------------------------------- */

/* What a command's operands are, in words: "lock", "locks" (any number), "file"; and "command".
 * "words" are those of the commands. */
static const char *operands_of(const struct command *command)
{
	bool lock = strstr(command->usage, "NAME") != NULL;
	bool runs = strstr(command->usage, "COMMAND") != NULL;

	if (command->show == SHOW_HELP)
		return "words";
	if (strncmp(command->usage, "STATEFILE", 9) == 0)
		return "file command";
	if (lock && runs)
		return "lock command";
	if (lock)
		return strstr(command->usage, "...") != NULL ? "locks" : "lock";
	return "";
}

static bool is_taken_by(const struct option_row *row, const struct command *command)
{
	return (row->commands & command->bit) != 0;
}

static bool may_be_repeated(const struct option_row *row)
{
	return row->set == option_set_step || row->set == option_set_also;
}

/* What an option's argument is, in a word. */
static const char *argument_of(const struct option_row *row)
{
	static const char *const kinds[] = {
		[COMPLETE_NOTHING] = "other",
		[COMPLETE_CHOICE] = "choice",
		[COMPLETE_COMMAND] = "string",
		[COMPLETE_FILE] = "file",
		[COMPLETE_LOCK] = "lock",
		[COMPLETE_PROFILE] = "profile",
		[COMPLETE_SERVER] = "server",
		[COMPLETE_SIGNAL] = "signal",
	};

	return kinds[row->completion];
}

/* "-n SEPARATOR --nonblock", with all names or those of --help. */
static void write_spellings(const struct option_row *row, const char *separator, bool all)
{
	const char *before = "";

	for (const char *own = row->letters; own != NULL && *own != '\0'; own++) {
		printf("%s-%c", before, *own);
		before = separator;
	}
	for (size_t i = 0; row->names[i] != NULL && (all || i == 0); i++) {
		printf("%s--%s", before, row->names[i]);
		before = separator;
	}
}

static void write_choices(const struct option_row *row)
{
	for (const char *const *choice = row->choices; *choice != NULL; choice++)
		printf(" %s", *choice);
}

static void write_signals(void)
{
	for (int number = 1; number < __SIGRTMIN; number++) {
		if (sigabbrev_np(number) != NULL)
			printf(" %s", sigabbrev_np(number));
	}
}

/* "redis://"; a folder needs no host. */
static void write_scheme(const char *scheme, void *context)
{
	(void)context;
	printf(" %s:%s", scheme, strcmp(scheme, "file") == 0 ? "" : "//");
}

/* Inside of single quotes: special is what the shell wants a backslash before. */
static void write_quoted(const char *text, const char *special, const char *apostrophe)
{
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			fputs(apostrophe, stdout);
		else
			printf(strchr(special, *text) != NULL ? "\\%c" : "%c", *text);
	}
}

/* --- bash ---------------------------------------------------------------------------------- */

static void write_bash(void)
{
	printf("_dlock_configuration='%s/dlock.conf'\n_dlock_signals='", SYSCONFDIR);
	write_signals();
	printf("'\n_dlock_schemes='");
	services_each_scheme(write_scheme, NULL);
	printf(" '\n_dlock_words='");
	for (const struct command *command = commands; command->word != NULL; command++)
		printf(" %s", command->word);
	printf(" '\n\n# WORD: what the operands of that command are, and its options.\n"
	       "_dlock_command_table()\n{\n\tcase $1 in\n");
	for (const struct command *command = commands; command->word != NULL; command++) {
		printf("\t%s)\n\t\toperands='%s'\n\t\toptions='", command->word,
			operands_of(command));
		for (const struct option_row *row = option_rows; row->names[0] != NULL; row++) {
			if (is_taken_by(row, command)) {
				write_spellings(row, " ", false);
				putchar(' ');
			}
		}
		printf("'\n\t\t;;\n");
	}
	printf("\tesac\n}\n\n# OPTION: what its argument is; fails where it takes none.\n"
	       "_dlock_argument_table()\n{\n\tcase $1 in\n");
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++) {
		if (row->commands == 0 || row->argument == NULL)
			continue;
		putchar('\t');
		write_spellings(row, " | ", true);
		printf(") argument='%s", argument_of(row));
		if (row->completion == COMPLETE_CHOICE)
			write_choices(row);
		printf("' ;;\n");
	}
	printf("\t*) return 1 ;;\n\tesac\n}\n");
}

/* --- zsh ----------------------------------------------------------------------------------- */

/* One spelling of an option, as _arguments wants it; '!' before one that is not offered. */
static void write_zsh_spelling(const struct option_row *row, const char *spelling, bool offered)
{
	bool is_long = spelling[1] == '-';

	printf("\t\t\t'%s", offered ? "" : "!");
	if (may_be_repeated(row)) {
		putchar('*');
	} else {
		putchar('(');
		write_spellings(row, " ", true);
		putchar(')');
	}
	printf("%s%s[", spelling, row->argument == NULL ? "" : is_long ? "=" : "+");
	write_quoted(row->help, "[]\\", "'\\''");
	putchar(']');
	if (row->argument != NULL) {
		printf(":%s:", row->argument);
		if (row->completion == COMPLETE_CHOICE) {
			putchar('(');
			write_choices(row);
			putchar(')');
		} else {
			printf("_dlock_%s", argument_of(row));
		}
	}
	printf("'\n");
}

static void write_zsh_option(const struct option_row *row, bool offered)
{
	for (const char *own = row->letters; own != NULL && *own != '\0'; own++)
		write_zsh_spelling(row, (char[]){'-', *own, '\0'}, offered);
	for (size_t i = 0; row->names[i] != NULL; i++) {
		char spelling[64];

		snprintf(spelling, sizeof(spelling), "--%s", row->names[i]);
		write_zsh_spelling(row, spelling, offered && i == 0);
	}
}

/* The options of a command; bare, before it is known which one it is: those of the first are
 * offered, the others known. */
static void write_zsh_options(const struct command *command, bool bare)
{
	printf("\t%s)\n\t\toperands=(%s)\n\t\toptions=(\n", bare ? "''" : command->word,
		operands_of(command));
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++) {
		if (is_taken_by(row, command) || (bare && row->commands != 0))
			write_zsh_option(row, is_taken_by(row, command));
	}
	printf("\t\t)\n\t\t;;\n");
}

static void write_zsh(void)
{
	printf("_dlock_configuration='%s/dlock.conf'\n_dlock_signals=(", SYSCONFDIR);
	write_signals();
	printf(")\n_dlock_schemes=(");
	services_each_scheme(write_scheme, NULL);
	printf(" )\n_dlock_words=(\n");
	for (const struct command *command = commands; command->word != NULL; command++) {
		printf("\t'%s:", command->word);
		write_quoted(command->summary, ":\\", "'\\''");
		printf("'\n");
	}
	printf(")\n\n# WORD: what the operands of that command are, and its options.\n"
	       "_dlock_command_table() {\n\tcase $1 in\n");
	write_zsh_options(&commands[0], true);
	for (const struct command *command = commands; command->word != NULL; command++)
		write_zsh_options(command, false);
	printf("\tesac\n}\n");
}

/* --- fish ---------------------------------------------------------------------------------- */

static void write_fish_argument(const struct option_row *row)
{
	if (row->argument == NULL)
		return;
	if (row->completion == COMPLETE_FILE) {
		printf(" -r -F");
	} else if (row->completion == COMPLETE_CHOICE) {
		printf(" -x -a '");
		write_choices(row);
		putchar('\'');
	} else if (row->completion == COMPLETE_NOTHING) {
		printf(" -x");
	} else {
		printf(" -x -a '(__dlock_%s)'", argument_of(row));
	}
}

static void write_fish_option(const struct option_row *row)
{
	printf("complete -c dlock -n '__dlock_takes");
	for (const struct command *command = commands; command->word != NULL; command++) {
		if (is_taken_by(row, command))
			printf(" %s", command->word);
	}
	putchar('\'');
	for (const char *own = row->letters; own != NULL && *own != '\0'; own++)
		printf(" -s %c", *own);
	printf(" -l %s", row->names[0]);
	write_fish_argument(row);
	printf(" -d '");
	write_quoted(row->help, "\\", "\\'");
	printf("'\n");
}

static void write_fish(void)
{
	printf("set -g __dlock_configuration '%s/dlock.conf'\nset -g __dlock_signals", SYSCONFDIR);
	write_signals();
	printf("\nset -g __dlock_schemes");
	services_each_scheme(write_scheme, NULL);
	printf("\nset -g __dlock_words");
	for (const struct command *command = commands; command->word != NULL; command++)
		printf(" %s", command->word);
	printf("\n# What the operands of each are.\nset -g __dlock_operands");
	for (const struct command *command = commands; command->word != NULL; command++)
		printf(" '%s'", operands_of(command));
	printf("\n# The options with an argument.\nset -g __dlock_with_argument");
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++) {
		if (row->commands != 0 && row->argument != NULL) {
			putchar(' ');
			write_spellings(row, " ", true);
		}
	}
	putchar('\n');
	for (const struct command *command = commands; command->word != NULL; command++) {
		printf("complete -c dlock -n '__dlock_expects word' -a %s -d '", command->word);
		write_quoted(command->summary, "\\", "\\'");
		printf("'\n");
	}
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++) {
		if (row->commands != 0)
			write_fish_option(row);
	}
}

/* ------------------------------------------------------------------------------------------- */

static const struct dialect *find_dialect(const char *shell)
{
	static const struct dialect dialects[] = {
		{"bash", write_bash},
		{"zsh", write_zsh},
		{"fish", write_fish},
		{NULL, NULL},
	};
	const struct dialect *dialect = dialects;

	while (dialect->shell != NULL && strcmp(dialect->shell, shell) != 0)
		dialect++;
	return dialect->shell == NULL ? NULL : dialect;
}

int main(int argc, char **argv)
{
	const struct dialect *dialect = argc == 2 ? find_dialect(argv[1]) : NULL;
	char line[256];

	if (dialect == NULL) {
		fprintf(stderr, "usage: generate bash|zsh|fish <SKELETON >COMPLETIONS\n");
		return EXIT_FAILURE;
	}
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (strcmp(line, "@TABLE@\n") == 0)
			dialect->write();
		else
			fputs(line, stdout);
	}
	return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
}
