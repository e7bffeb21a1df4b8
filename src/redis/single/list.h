/* Which locks a server has. */
#ifndef DLOCK_REDIS_SINGLE_LIST_H
#define DLOCK_REDIS_SINGLE_LIST_H

#include "lock/service.h"

extern const struct lock_list_ops single_list_ops;

#endif
