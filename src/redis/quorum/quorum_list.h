/* Which locks the servers of a quorum have. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_LIST_H
#define DLOCK_REDIS_QUORUM_QUORUM_LIST_H

#include "lock/lock_list.h"

struct server;

bool quorum_list(const struct server *server, const char *prefix, char *const *patterns,
	size_t pattern_count, bool idle_too,
	void (*show)(const struct lock_view *view, void *context), void *context,
	struct deadline deadline, struct failure *failure);

#endif
