/* The lock service: one Redis server. */
#pragma once

#include "lock/service.h"

/* struct lock_service's check, of both. */
bool redis_check(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure);

extern const struct lock_service redis_service, quorum_service;
