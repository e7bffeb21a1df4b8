/* Waiting for a lock on a quorum. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_WAIT_H
#define DLOCK_REDIS_QUORUM_QUORUM_WAIT_H

#include "redis/quorum/quorum.h"

enum lock_result quorum_wait(struct lock *lock, struct deadline deadline, struct failure *failure);

/* Before any other request. */
void quorum_stop_listening(struct quorum *quorum);

#endif
