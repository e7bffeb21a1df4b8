#include "screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "failure.h"

/* ECMA-48 and xterm: every terminal of today that is not dumb. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[H\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME  "\033[H"
#define CLEAR "\033[J"

#define COLUMNS 80 /* where the terminal does not say */
#define ROWS    24

bool screen_open(struct screen *screen, struct failure *failure)
{
	const char *terminal = getenv("TERM");

	if (isatty(STDOUT_FILENO) != 1)
		return failure_set(failure, EXIT_USAGE,
			"--watch: standard output is no terminal; without it the table is printed "
			"once");
	if (terminal == NULL || *terminal == '\0' || strcmp(terminal, "dumb") == 0)
		return failure_set(failure, EXIT_USAGE,
			"--watch: this terminal cannot redraw in place (TERM is '%.50s')",
			terminal == NULL ? "" : terminal);
	screen->has_keys = tcgetattr(STDIN_FILENO, &screen->before) == 0;
	screen_measure(screen);
	return true;
}

void screen_measure(struct screen *screen)
{
	struct winsize size = {0};

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	screen->columns = size.ws_col > 0 ? size.ws_col : COLUMNS;
	screen->rows = size.ws_row > 0 ? size.ws_row : ROWS;
}

void screen_enter(struct screen *screen)
{
	struct termios keys = screen->before;

	if (screen->has_keys) {
		keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		keys.c_cc[VMIN] = 1;
		keys.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &keys);
	}
	fputs(ENTER, stdout);
	fflush(stdout);
}

void screen_leave(const struct screen *screen)
{
	fputs(LEAVE, stdout);
	fflush(stdout);
	if (screen->has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

void screen_begin_frame(void)
{
	fputs(HOME, stdout);
}

void screen_end_frame(void)
{
	fputs(CLEAR, stdout);
	fflush(stdout);
}
