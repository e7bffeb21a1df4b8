/* The lock service: a quorum of Redis servers. */
#ifndef DLOCK_REDIS_QUORUM_QUORUM_SERVICE_H
#define DLOCK_REDIS_QUORUM_QUORUM_SERVICE_H

#include "lock/service.h"

extern const struct lock_service quorum_service;

#endif
