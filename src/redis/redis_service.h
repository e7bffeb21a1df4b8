/* The lock service: one Redis server. */
#ifndef DLOCK_REDIS_REDIS_SERVICE_H
#define DLOCK_REDIS_REDIS_SERVICE_H

#include "lock/service.h"

extern const struct lock_service redis_service, quorum_service;

#endif
