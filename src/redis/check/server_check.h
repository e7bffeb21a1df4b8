/* Is a server fit to hold locks? Each server by itself, then all together. */
#pragma once

#include "lock/lock.h"

struct lock_finding;
struct lock_service;

/* As check of struct lock_service; each: the service of one server of a list. */
bool server_check(const struct server *server, const struct lock_service *each,
	const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure);
