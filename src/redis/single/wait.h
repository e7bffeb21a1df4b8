/* Waiting for a lock on one server. */
#ifndef DLOCK_REDIS_SINGLE_WAIT_H
#define DLOCK_REDIS_SINGLE_WAIT_H

#include "lock/lock.h"

struct lock;
struct single;

enum lock_result single_wait(struct lock *lock, struct deadline deadline, struct failure *failure);

/* Takes over a LOCK_BUSY answer. */
void wait_adopt_answer(struct single *single, const struct lock_answer *answer);

/* Stops listening, before any other request. */
void wait_stop(struct single *single);

/* How long the last known holder may still come back, in ms, for the next request. */
int64_t wait_hold_off(struct single *single);

#endif
