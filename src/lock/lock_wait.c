/* Waiting for a lock, with a look at circles of waits now and then. */
#include "lock/circle.h"
#include "lock/service.h"

enum lock_result lock_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	for (;;) {
		struct deadline limit = deadline;
		nanos due = circle_due(lock);
		enum lock_result result;

		if (due < limit.until)
			limit = (struct deadline){.until = due, .cancel_fd = deadline.cancel_fd};
		result = lock->service->wait(lock, limit, failure);
		if (result != LOCK_TIMEOUT || due == NANOS_NEVER || due > deadline.until)
			return result;
		if (clock_now() >= due && !circle_look(lock, failure))
			return LOCK_FAILED;
	}
}
