/* The acknowledged handover by a claim: a message can go into a dead socket. */
#pragma once

#include "base/clock.h"
#include "lock/lock.h"

/* The name of a keeper that goes on after its front was told (PR_SET_NAME). An outer dlock
 * knows it by that (survivors.h). */
#define HANDOFF_PROGRAM "dlock handover"

#define HANDOFF_LIMIT  (5 * NANOS_PER_SEC)  /* for one that nobody waits for */
#define HANDOFF_GLANCE (100 * NANOS_PER_MS) /* while something else waits */

/* For the process that handed the lock on. Looks again after a round trip, then after 2, 4 … 100
 * ms, until the receivers have claimed it. A lock that none of them took goes to the next. Returns
 * at once if nothing was handed off, and `limit` (a span) after the last change at the latest. The
 * receivers' own timers go on from there. */
void handoff_verify(struct lock *lock, nanos limit);
