/* The lock service: one Redis server. */
#pragma once

#include "lock/service.h"

extern const struct lock_service redis_service, quorum_service;
