/* Circles of waits, which would never end: for lock_wait, on the waiter's thread. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

struct failure;
struct lock;

/* When the next look is due; NANOS_NEVER: we hold nothing else, or the service shows no tokens. */
nanos circle_due(struct lock *lock);

/* Looks, within a second. False with failure EXIT_DEADLOCK, which names the circle: the wait would
 * never end, and we came last. */
bool circle_look(struct lock *lock, struct failure *failure);
