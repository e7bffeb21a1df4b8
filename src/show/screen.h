/* The terminal on stdout while something is redrawn on it in place: its second screen, without
 * cursor and line wrap; keys come one by one and are not echoed. All is as before when it is left,
 * and when we crash; only SIGKILL leaves it so. */
#pragma once

#include <stdbool.h>
#include <termios.h>

struct failure;

struct screen {
	struct termios before; /* of stdin */
	bool has_keys;         /* stdin is a terminal too */
	int columns, rows;
};

/* Nothing is changed yet. False with failure EXIT_USAGE: stdout is no terminal that can do it. */
bool screen_open(struct screen *screen, struct failure *failure);

/* The struct must stay where it is until the screen is left. */
void screen_enter(struct screen *screen);
void screen_leave(const struct screen *screen);

/* Looks how large it is now. */
void screen_measure(struct screen *screen);

/* By Ctrl-S, say: what is written now would stop us as well. */
bool screen_is_stopped(void);

/* A frame: what is printed to stdout between these two, each line beginning with SCREEN_LINE_START,
 * takes the place of the frame before. (At the end of a full line it would erase the last column.)
 */
#define SCREEN_LINE_START "\033[K"
void screen_begin_frame(void);

/* False: the terminal is gone. */
bool screen_end_frame(void);
