/*
 * Whether a wait would never end. The waiter runs under a lock (struct lock_request.held). The
 * holder of what it waits for waits for that lock in turn, if only by way of others. A waiter looks
 * after a second. It publishes what it waits for, and walks from lock to holder, and from holder to
 * the lock that this one waits for. The last waiter to join a circle asks the others twice for a
 * proof that they live and still wait; then it leaves. So no waiter leaves because of a dead one,
 * and only one leaves a circle.
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

/* Looks; when the next look is due is in look_at. IO_OK, also if this server cannot tell;
 * IO_CLOSED: the connection is gone; IO_FAILED with EXIT_DEADLOCK. */
enum io_result deadlock_look(struct single *single, struct failure *failure);
