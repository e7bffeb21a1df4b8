/* Extending a lock on one server. */
#ifndef DLOCK_REDIS_SINGLE_RENEW_H
#define DLOCK_REDIS_SINGLE_RENEW_H

#include "lock/lock.h"

struct lock;

void single_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer);

#endif
