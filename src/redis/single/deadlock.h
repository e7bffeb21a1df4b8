/*
 * Whether a wait would never end: the one who waits runs under a lock (struct lock_request.held)
 * that the holder of what it waits for waits for in turn, if only by way of others. A waiter looks
 * after a second, publishes what it waits for, and walks from who holds what to who waits for what.
 * The one in a circle that has come last asks the others twice for a proof that they live and still
 * wait; then it leaves. So nobody leaves for a waiter that is dead, and of a circle one only.
 */
#pragma once

#include "base/clock.h"
#include "base/failure.h"
#include "net/io_result.h"

struct deadlock;
struct single;

/* The wait begins. */
void deadlock_begin(struct single *single);

/* A message "prove TEXT" has come. */
void deadlock_record_proof(struct single *single, const char *text);

/* When the next look is due; 0: at once. */
nanos deadlock_due(const struct deadlock *deadlock);

/* Looks; when the next look is due is in look_at. IO_OK, also where this server cannot tell;
 * IO_CLOSED: the connection is gone; IO_FAILED with EXIT_DEADLOCK. */
enum io_result deadlock_look(struct single *single, struct failure *failure);
