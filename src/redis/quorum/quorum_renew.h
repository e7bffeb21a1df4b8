/* Extending a lock on a quorum. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_RENEW_H
#define DLOCK_REDIS_QUORUM_QUORUM_RENEW_H

#include "redis/quorum/quorum.h"

#define QUORUM_DIAL_PAUSE (50 * NANOS_PER_MS) /* between two tries to connect to a server */

void quorum_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer);

/* Begins to watch the connections there are, and ends it: see lock_watch_fd. */
void quorum_watch(struct quorum *quorum);
void quorum_unwatch(struct quorum *quorum);

/* Whether a token is all that is known: what was acquired detached, by another process. */
bool quorum_by_token(const struct quorum *quorum);

/* LOCK_LOST. */
void quorum_report_loss(struct quorum *quorum, struct lock_answer *answer);

/* Takes in what has come since, without waiting. */
void quorum_catch_up(struct quorum *quorum);

/* Connects to a server that was not to be reached, but not all the time. */
void quorum_dial(struct quorum *quorum, size_t which);

#endif
