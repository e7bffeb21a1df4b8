/* Giving a lock on a quorum back, and breaking it. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_RELEASE_H
#define DLOCK_REDIS_QUORUM_QUORUM_RELEASE_H

#include "redis/quorum/quorum.h"

void quorum_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer);
void quorum_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer);

/* Sends the release of this attempt to a server, behind whatever is under way there. False: it was
 * not sent. */
bool quorum_send_release(struct quorum *quorum, size_t which,
	const struct release_terms *release_terms, bool in_full);

#endif
