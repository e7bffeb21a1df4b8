/*
 * The world that a fuzzer of replies lives in. Any input does the same each time, and quickly: the
 * linker puts functions of ours in the place of what dlock calls (--wrap, see world.c): connecting
 * gives a socket that holds what the server says, time passes only if dlock waits, chance is
 * always the same, and a thread runs when it is made.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/deadline.h"

/*
 * What a server says on one connection ends with 0xff, and it closes; what follows is said on the
 * next connection, to whomever it leads. Afterwards none comes to be. Within it stand for
 */
enum {
	WORLD_ACT = 0xf9,   /* the byte behind it: as it stands, or what the voice makes of it */
	WORLD_TAKES_LITTLE, /* first of all: takes less than a request, until it has paused */
	WORLD_BREAKS,       /* gone, with what was not read; first of all: it was never there */
	WORLD_CANCELS,      /* the user presses Ctrl-C */
	WORLD_PAUSES,       /* for 300 ms; first of all: does nothing at all until then */
	WORLD_SILENT,       /* says no more, and stays */
	WORLD_NEXT,
};

/* The speakers at the far ends of the connections; all may use the socket, which does not block. */
struct world_voice {
	void *(*begin)(int fd);

	/* What came is looked at. False: nothing can be said yet. */
	bool (*turn)(void *self, int fd);
	void (*say)(void *self, int fd, const uint8_t *bytes, size_t size);
	void (*act)(void *self, int fd, uint8_t what);
	void (*end)(void *self);
};

/* Begins a run; voice NULL: it says what the input has as it stands. A run is aborted that asks the
 * sockets over and over again while no time passes, or leaves a descriptor open. */
void world_begin(const uint8_t *data, size_t size, const struct world_voice *voice);
void world_end(void);

/* A minute from now on, or until Ctrl-C is pressed for the first time. */
struct deadline world_patience(void);

#endif
