/* The acknowledged handover (scripts.md 4, flaw 1): a message can go into a dead socket. */
#pragma once

#include "base/clock.h"
#include "lock/lock.h"

#define HANDOFF_PROGRAM                                                                            \
	"dlock handover" /* and the process that sees to a handover: see handoff_leave_behind      \
			  */

#define HANDOFF_LIMIT (5 * NANOS_PER_SEC) /* for one that nobody waits for */

/* For the process that handed the lock on. Looks again after a round trip, then after 2, 4 … 100
 * ms, until the receivers have claimed it. What none of them took goes to the next. Returns at once
 * if nothing was handed off, and `limit` (a span) after the last change at the latest. The
 * receivers' own timers go on from there. */
void handoff_verify(struct lock *lock, nanos limit);

/* The same in a process of its own that keeps nothing of the caller's open, for when ours has to
 * end. If there is no process to be had, the receivers' own timers must do. */
void handoff_leave_behind(struct lock *lock);

/* The first for a moment, then the second: the caller is not kept waiting for a handover. */
void handoff_see_to(struct lock *lock);
