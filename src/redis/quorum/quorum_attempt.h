/* An attempt to take a lock from all servers at once. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_ATTEMPT_H
#define DLOCK_REDIS_QUORUM_QUORUM_ATTEMPT_H

#include "redis/link/peer.h"
#include "redis/quorum/quorum.h"

enum lock_result quorum_ask(struct lock *lock, struct deadline deadline, struct failure *failure);

/* Another attempt, with no votes yet; its connections are begun. What is left of the last one is
 * taken back. */
bool quorum_begin(struct quorum *quorum, struct failure *failure);

/* Asks whoever was not asked yet and can be. */
void quorum_send_out(struct quorum *quorum);

/* For struct quorum's repeat. */
bool quorum_repeat_acquire(struct quorum *quorum, size_t which, enum peer_kind kind);

/* Sends the fencing token. False: it was not sent. */
bool quorum_send_confirm(struct quorum *quorum, size_t which, bool in_full);

/* Those that may still promise the lock. */
size_t quorum_count_open(const struct quorum *quorum);

/* Tells all that were asked to forget this attempt, and waits a moment for those that promised. */
void quorum_step_back(struct quorum *quorum);

#endif
