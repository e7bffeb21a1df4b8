/* The acknowledged handover (scripts.md 4, flaw 1): a message can go into a dead socket. */
#ifndef DLOCK_HANDOVER_H
#define DLOCK_HANDOVER_H

#include "clock.h"

struct lock;
struct lock_answer;

/* Whoever's request handed the lock on looks again after a round trip, then after 2, 4 … 100 ms,
 * until the receivers have claimed it; what nobody took goes to the next. Returns at once where
 * nothing was handed on; `limit` (a span) after the last change at the latest: the receivers' own
 * timers go on from there. */
void handover_verify(struct lock *lock, struct lock_answer *answer, nanos limit);

/* The same in a process of its own that keeps nothing of the caller's open, for when ours has to
 * end. Where there is no process to be had the receivers' own timers must do. */
void handover_leave_behind(struct lock *lock, struct lock_answer *answer, nanos limit);

/* The first for a moment, then the second: nobody is kept waiting for a handover. */
void handover_see_to(struct lock *lock, struct lock_answer *answer);

#endif
