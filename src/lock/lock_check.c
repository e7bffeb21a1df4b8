#include "lock/lock_check.h"

#include "lock/lock.h"
#include "lock/service.h"
#include "lock/services.h"
#include "net/server.h"

bool lock_check_server(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure)
{
	/* Those of a quorum are looked at one by one, and each as one that is alone. */
	struct server each = *server;
	const struct lock_service *service;

	if (each.scheme == SERVER_QUORUM)
		each.scheme = SERVER_REDIS;
	service = services_find(&each, failure);
	return service && service->check(server, request, take, context, failure);
}
