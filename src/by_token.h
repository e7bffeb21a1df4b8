/* A step on a lock that somebody else took: a process of its own for a moment, by a token, or by
 * force. */
#ifndef DLOCK_BY_TOKEN_H
#define DLOCK_BY_TOKEN_H

#include "patience.h"

struct lock;
struct lock_answer;
struct options;

/* Opens the lock of the options, has the step done, says in one line what kept it from success, and
 * returns the exit code. */
int by_token(const struct options *options,
	void (*step)(struct lock *lock, const struct options *options, struct patience patience,
		struct lock_answer *answer));

#endif
