/* The lock service: one Redis server. */
#pragma once

#include "lock/service.h"

/* Of both. */
lock_check_function redis_check;

extern const struct lock_service redis_service, quorum_service;
