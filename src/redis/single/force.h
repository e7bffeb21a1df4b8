/* Breaking a lock on one server. */
#ifndef DLOCK_REDIS_SINGLE_FORCE_H
#define DLOCK_REDIS_SINGLE_FORCE_H

#include "lock/lock.h"

struct lock;

void single_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer);

#endif
