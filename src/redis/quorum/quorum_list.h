/* Which locks the servers of a quorum have. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_LIST_H
#define DLOCK_REDIS_QUORUM_QUORUM_LIST_H

#include "lock/service.h"

extern const struct lock_list_ops quorum_list_ops;

#endif
