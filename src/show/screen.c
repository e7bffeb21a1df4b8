#include "show/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/failure.h"

/* ECMA-48 and xterm: every terminal of today that is not dumb. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[H\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"
#define HOME  "\033[H"
#define CLEAR "\033[J"

#define COLUMNS 80 /* if the terminal does not say */
#define ROWS    24

/* For the handler alone: NULL if there is nothing to give back. */
static const struct screen *volatile entered;

/* tcsetattr(3) is safe in a handler, too. */
static void give_back(int sig)
{
	const struct screen *screen = entered;

	if (screen != NULL) {
		(void)!write(STDOUT_FILENO, LEAVE, sizeof(LEAVE) - 1);
		if (screen->has_keys)
			tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
	}
	raise(sig);
}

/* A signal that has a handler already keeps it: a sanitizer's, for one. */
static void guard_against_crashes(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT};
	struct sigaction action = {
		.sa_handler = give_back, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
	struct sigaction before;

	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		if (sigaction(crashes[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
			sigaction(crashes[i], &action, NULL);
}

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

	guard_against_crashes();
	entered = screen;
	if (screen->has_keys) {
		keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		keys.c_cc[VMIN] = 1;
		keys.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &keys);
	}
	fputs(ENTER, stdout);
	fflush(stdout);
}

/* As Ctrl-Q does; TCOON alone undoes no more than TCOOFF (n_tty_ioctl_helper()). In the background
 * it would stop us. */
static void let_go_on(void)
{
	if (tcgetpgrp(STDOUT_FILENO) != getpgrp())
		return;
	tcflow(STDOUT_FILENO, TCOOFF);
	tcflow(STDOUT_FILENO, TCOON);
}

void screen_leave(const struct screen *screen)
{
	let_go_on();
	fputs(LEAVE, stdout);
	fflush(stdout);
	if (screen->has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
	entered = NULL;
}

bool screen_is_stopped(void)
{
	struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&out, 1, 0) == 0;
}

void screen_begin_frame(void)
{
	fputs(HOME, stdout);
}

/* A terminal that does not keep up (O_NONBLOCK) misses a part. */
bool screen_end_frame(void)
{
	bool there;

	fputs(CLEAR, stdout);
	there = fflush(stdout) == 0 || errno == EAGAIN;
	clearerr(stdout);
	return there;
}
