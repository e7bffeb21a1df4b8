/* Taking a lock on one server. */
#ifndef DLOCK_REDIS_SINGLE_TAKE_H
#define DLOCK_REDIS_SINGLE_TAKE_H

#include <stdbool.h>

#include "lock/lock.h"

struct lock;

enum lock_result single_ask(struct lock *lock, struct deadline deadline, struct failure *failure);

void single_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer);

void single_answer(struct lock *lock, struct deadline deadline, struct lock_answer *answer);

/* As acquire.lua says it. */
bool single_is_busy(const struct lock *lock);

void single_adopt_answer(struct lock *lock, const struct lock_answer *answer);

#endif
