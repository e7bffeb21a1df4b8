/*
 * Whether a wait would never end: the one who waits runs under a lock (struct lock_request.held)
 * that the holder of what it waits for waits for in turn, if only by way of others. A waiter looks
 * after a second, publishes what it waits for, and walks from who holds what to who waits for what.
 * The one in a circle that has come last asks the others twice for a proof that they live and still
 * wait; then it leaves. So nobody leaves for a waiter that is dead, and of a circle one only.
 */
#ifndef DLOCK_REDIS_CIRCLE_H
#define DLOCK_REDIS_CIRCLE_H

#include <stdbool.h>

#include "clock.h"
#include "failure.h"
#include "redis/wire.h"

#define CIRCLE_PROOF 48

struct single;

struct circle {
	nanos look_at; /* NANOS_NEVER: never; 0: the wait has not begun */
	bool unable;   /* this server cannot tell: a Cluster */
	int confirmed;
	unsigned round;
	char asked[CIRCLE_PROOF]; /* the proof that was asked for in the last round; "": none */
	char proof[CIRCLE_PROOF]; /* what another one asks for; "": nobody does */
};

/* The wait begins. */
void circle_begin(struct single *single);

/* A message "prove TEXT" has come. */
void circle_note_proof(struct single *single, const char *text);

/* When the next look is due; 0: at once. */
nanos circle_due(const struct circle *circle);

/* Looks; when the next look is due is in look_at. WIRE_OK, also where this server cannot tell;
 * WIRE_CLOSED: the connection is gone; WIRE_FAILED with EXIT_DEADLOCK. */
enum wire circle_look(struct single *single, struct failure *failure);

#endif
