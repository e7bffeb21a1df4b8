/* Giving a lock on one server back, and handing it on. */
#ifndef DLOCK_REDIS_SINGLE_RELEASE_H
#define DLOCK_REDIS_SINGLE_RELEASE_H

#include <stdbool.h>

#include "lock/lock.h"

struct lock;

void single_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer);
bool single_release_send(
	struct lock *lock, const struct release_terms *release_terms, struct deadline deadline);
void single_release_finish(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer);
const char *single_handed(const struct lock *lock);
enum lock_result single_verify(struct lock *lock, struct deadline deadline);

#endif
