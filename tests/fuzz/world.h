/*
 * The world that a fuzzer of replies lives in. Any input does the same each time, and quickly: the
 * linker puts functions of ours in the place of what dlock calls (--wrap, see world.c): connecting
 * gives a socket that holds what the server says, time passes only where somebody waits, chance is
 * always the same, and a thread runs when it is made.
 */
#ifndef WORLD_H
#define WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "patience.h"

/* Behind what a server says: 0xff, it closes then; or 0xfe and 0xff, it stays and is silent. What
 * follows is said on the next connection, to whomever it leads. Afterwards none comes to be. */
#define WORLD_NEXT   0xff
#define WORLD_SILENT 0xfe

/* Begins a run. It aborts one that asks the sockets over and over again while no time passes. */
void world_begin(const uint8_t *data, size_t size);
void world_end(void);

/* A minute from now on. */
struct patience world_patience(void);

#endif
