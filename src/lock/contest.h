/*
 * Taking a lock from a service whose clients decide by the list of contenders (contenders.h): what
 * such services have in common. The steps that are a service's own: struct contest_ops.
 */
#pragma once

#include "lock/contenders.h"

struct contest_ops {
	const char *foreign; /* in messages: "another ... client"; static */

	/* Reads what a contender says of itself, if reading the list has not done so. LOCK_GRANTED;
	 * LOCK_GONE: it is not there any more; or as lock_renew. NULL: all is known. */
	enum lock_result (*look)(struct lock *lock, struct contender *c, struct deadline deadline,
		struct failure *failure);
	/* Our own contender; NULL: none. *lost: we had one, which is gone or another's. */
	struct contender *(*find_own)(struct lock *lock, const struct contenders *all, bool *lost);

	/* Either of these follows, and gives the answer. */
	/* We have no place. first: nothing was in the way. Else we want one all the same. */
	void (*enter)(struct lock *lock, bool first, struct deadline deadline,
		struct lock_answer *answer);
	/* We have one, and nothing is in the way. */
	void (*claim)(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
	/* We are to wait for that one: until it goes, or, if both want a permit, has one. NULL: for
	 * any change. The answer is complete, but for what only the
	 * service knows of the holder (NULL: there is none). It may keep the list. */
	void (*wait_for)(struct lock *lock, struct contenders *all, const struct contender *holder,
		const struct contender *obstacle, struct deadline deadline,
		struct lock_answer *answer);

	/* Ends a holder for good, as it was read. LOCK_GRANTED; LOCK_GONE: it has ended by itself;
	 * or as lock_renew. */
	enum lock_result (*end)(struct lock *lock, const struct contender *c,
		struct deadline deadline, struct failure *failure);
};

struct contest {
	const struct contest_ops *ops;
	struct lock *lock;                  /* borrowed; the service's, as all of these */
	const struct lock_request *request; /* borrowed */
	const char *id;                     /* borrowed; our own contender's */
};

/* By the contenders as they were read just now: gives the answer of one attempt to take the lock.
 * LOCK_LOST: our place is gone, and the next attempt is to be a fresh one. */
void contest_decide(const struct contest *contest, struct contenders *all, struct deadline deadline,
	struct lock_answer *answer);

/* Breaks the lock of the holders of this moment, as lock_force. A waiter whose turn comes meanwhile
 * is not among them. */
void contest_force(const struct contest *contest, const struct contenders *all,
	lock_holder_taker *tell, void *context, struct deadline deadline,
	struct lock_answer *answer);
