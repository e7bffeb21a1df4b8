/* From an attempt to a grant. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_GRANT_H
#define DLOCK_REDIS_QUORUM_QUORUM_GRANT_H

#include "lock/lock.h"

struct lock;

void quorum_answer(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
void quorum_adopt_answer(struct lock *lock, const struct lock_answer *answer);

#endif
