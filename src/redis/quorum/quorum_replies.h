/* What the servers of a quorum answer. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_REPLIES_H
#define DLOCK_REDIS_QUORUM_QUORUM_REPLIES_H

struct quorum;

/* Takes all replies that have come; notes who can no longer be reached. */
void quorum_collect(struct quorum *quorum);

#endif
