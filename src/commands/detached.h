/* One step on a lock that another process took, by its token or by force: a short process of its
 * own. */
#pragma once

#include "base/deadline.h"
#include "lock/lock.h"

struct options;

/* Opens the lock of the options, has the step done, says in one line what kept it from success, and
 * returns the exit code. */
int detached_step(const struct options *options,
	void (*step)(struct lock *lock, const struct options *options, struct deadline deadline,
		struct lock_answer *answer));
