#include "cli/help.h"

#include <stdio.h>

#include "base/message.h"
#include "base/output.h"
#include "cli/command.h"
#include "cli/option_table.h"
#include "cli/other_program.h"
#include "lock/services.h"

#define TEXT_COLUMN 32 /* where the description of an option begins */
#define WORD_COLUMN 42 /* and of a command */
#define LIBRARY     64 /* bytes of its name and version */
#define PAGE_NAME   32 /* bytes of "man dlock-WORD" */

/* "  -x, -e, --exclusive", "      --ttl DURATION", and what it is for. */
static void show_option(const struct option_row *row)
{
	const char *letters = row->letters == NULL ? "" : row->letters;
	const char *standing = row->preset == NULL ? row->otherwise : row->preset;
	int width = printf(*letters == '\0' ? "      " : "  ");

	for (; *letters != '\0'; letters++)
		width += printf("-%c, ", *letters);
	width += printf("--%s", row->names[0]);
	if (row->argument != NULL)
		width += printf(" %s", row->argument);
	printf("%*s%s", width > TEXT_COLUMN - 2 ? 2 : TEXT_COLUMN - width, "", row->help);
	if (standing != NULL)
		printf(" (default %s)", standing);
	putchar('\n');
}

static void show_options(const struct command *command)
{
	printf("\nOptions:\n");
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++)
		if ((row->commands & command->bit) != 0)
			show_option(row);
}

/* "  status [NAME|GLOB]...", and what it is for. */
static void show_word(const struct command *command)
{
	int width = printf("  %s %s", command->word, command->usage);

	printf("%*s%s\n", WORD_COLUMN - width, "", command->summary);
}

/* The end that the help of all commands has in common; pages: of the manual, as man(1) takes them.
 */
static void show_end(const char *pages)
{
	printf("\nA DURATION is 90 or 2.5 (seconds), 250ms, 1m30s, 2h, 7d.\n"
	       "The server: -S URL, else DLOCK_SERVER, else %s/dlock.conf; dlock help server has\n"
	       "the forms of its URL. All else, exit codes first: %s.\n",
		SYSCONFDIR, pages);
}

/* A command's page has its name; that of run is dlock's. */
static void show_command_end(const struct command *command)
{
	char page[PAGE_NAME] = "man dlock";

	if (command->bit != COMMAND_RUN)
		snprintf(page, sizeof(page), "man dlock-%s", command->word);
	show_end(page);
}

static void show_all(const struct command *commands)
{
	printf("Usage: dlock [OPTION]... NAME [--] COMMAND [ARG]...\n"
	       "   or: dlock WORD [OPTION]... [OPERAND]...\n\n"
	       "Runs COMMAND under the lock NAME, for all hosts that name one server. For "
	       "example:\n"
	       "  dlock -S redis://redis.example.net -n nightly-backup backup --all\n"
	       "  dlock -S file: -w 10m deploy -c 'git pull && make install'\n\n"
	       "Commands, each with a --help of its own:\n");
	for (const struct command *command = commands + 1; command->word != NULL; command++)
		show_word(command);
	show_options(&commands[0]);
	show_end("man dlock, man 7 dlock");
}

bool help_show(
	const struct command *commands, const struct command *command, struct failure *failure)
{
	if (command == NULL) {
		show_all(commands);
		return output_finish(failure);
	}
	printf("Usage: dlock %s%s%s%s\n       %s\n", command->word,
		command->bit != 0 ? " [OPTION]..." : "", *command->usage != '\0' ? " " : "",
		command->usage, command->summary);
	if (command->bit != 0) {
		show_options(command);
		show_command_end(command);
	}
	return output_finish(failure);
}

bool help_show_server(struct failure *failure)
{
	printf("The server is named by -S URL, else by the variable DLOCK_SERVER, else by a line\n"
	       "'server = URL' in %s/dlock.conf. There is no default. URL is one of\n\n",
		SYSCONFDIR);
	services_print_forms();
	printf("\nIn user, password and path a character with a meaning in URLs is written as "
	       "%%XX.\n"
	       "A password may also stand in DLOCK_PASSWORD, or in a password-file of the\n"
	       "configuration. dlock check says whether the server is fit to hold locks.\n"
	       "The rest: man dlock-redis, man dlock-file, and so for postgres, etcd, "
	       "zookeeper.\n");
	return output_finish(failure);
}

void help_say_usage(void)
{
	message_say(MESSAGE_ERROR, "usage: dlock [OPTION]... NAME [--] COMMAND [ARG]...");
	message_say(MESSAGE_ERROR, "dlock help lists options and commands; man dlock tells all");
}

static void show_service(const char *scheme, const char *program, const char *library)
{
	char text[LIBRARY];

	printf("%-14s", scheme);
	if (program == NULL)
		puts(*library != '\0' ? library : "built in");
	else if (other_program_library(program, text, sizeof(text)))
		puts(text);
	else
		printf("not there: the package %s is not installed\n", program);
}

bool help_show_version(struct failure *failure)
{
	char library[LIBRARY];

	if (services_own_library(library, sizeof(library))) {
		puts(library); /* another program asks (other_program_library) */
		return output_finish(failure);
	}
	printf("dlock %s\n", PACKAGE_VERSION);
	services_each(show_service);
	if (other_program_library(SERVICES_TLS_PROGRAM, library, sizeof(library)))
		printf("TLS: yes, %s\n", library);
	else
		printf("TLS: no\n");
	return output_finish(failure);
}
