#include "show/color.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_wanted(void)
{
	const char *no_color = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");

	return isatty(STDOUT_FILENO) == 1 && (no_color == NULL || *no_color == '\0') &&
	       terminal != NULL && *terminal != '\0' && strcmp(terminal, "dumb") != 0;
}

void color_print(enum color color, const char *text)
{
	/* ECMA-48, SGR */
	static const char *const numbers[] = {[COLOR_HEADING] = "1",
		[COLOR_GOOD] = "32",
		[COLOR_DOUBT] = "33",
		[COLOR_BAD] = "31"};

	if (color == COLOR_PLAIN || !is_wanted())
		fputs(text, stdout);
	else
		printf("\033[%sm%s\033[0m", numbers[color], text);
}
