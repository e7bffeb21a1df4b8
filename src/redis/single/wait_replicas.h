/* A grant counts once the server's replicas have it. */
#ifndef DLOCK_REDIS_SINGLE_WAIT_REPLICAS_H
#define DLOCK_REDIS_SINGLE_WAIT_REPLICAS_H

#include "base/deadline.h"
#include "lock/lock.h"

struct call;
struct single;

/* Adds to a request to acquire what request.replicas asks for. */
void wait_replicas_ask(const struct single *single, struct call *call, struct deadline deadline);

/* After the answer to it: waits for the replicas. A grant that too few of them have is given back:
 * LOCK_UNREPLICATED. */
void wait_replicas_handle(
	struct single *single, struct deadline deadline, struct lock_answer *answer);

#endif
