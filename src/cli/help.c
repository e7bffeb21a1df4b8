#include "cli/help.h"

#include <stdio.h>

#include "base/output.h"
#include "cli/command.h"
#include "cli/option_table.h"
#include "cli/other_program.h"
#include "lock/services.h"

#define TEXT_COLUMN 32 /* where the description of an option begins */

static void show_usage(const struct command *command, bool implied)
{
	printf("  dlock %s%s[OPTION]... %s\n", implied ? "" : command->word, implied ? "" : " ",
		command->usage);
	printf("      %s\n", command->summary);
}

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
	if (width > TEXT_COLUMN - 2) {
		putchar('\n');
		width = 0;
	}
	printf("%*s%s", TEXT_COLUMN - width, "", row->help);
	if (standing != NULL)
		printf(" (%s)", standing);
	putchar('\n');
}

static void show_options(const struct command *command)
{
	printf("\nOptions, with what holds when they are not given:\n");
	for (const struct option_row *row = option_rows; row->names[0] != NULL; row++)
		if ((row->commands & command->bit) != 0)
			show_option(row);
}

bool help_show(
	const struct command *commands, const struct command *command, struct failure *failure)
{
	printf("Usage:\n");
	if (command != NULL) {
		show_usage(command, command == &commands[0]);
	} else {
		for (command = commands; command->word != NULL; command++)
			show_usage(command, command == &commands[0]);
		command = &commands[0];
		printf("\ndlock runs a command under a lock that lives in a server, for all hosts\n"
		       "alike. What follows is for the first form; dlock COMMAND --help tells of\n"
		       "the others.\n");
	}
	show_options(command);
	printf("\nA DURATION is 90 or 2.5 (seconds), 250ms, 1m30s, 2h, 7d. The server is named\n"
	       "by -S, by DLOCK_SERVER or in the configuration; its URL is\n");
	services_print_forms();
	printf("Everything else, exit codes first: man dlock\n");
	return output_finish(failure);
}

bool help_show_version(struct failure *failure)
{
	printf("dlock %s\nTLS: %s\n", PACKAGE_VERSION, other_program_has_tls() ? "yes" : "no");
	return output_finish(failure);
}
