#include "lock/lock_check.h"

#include "lock/service.h"
#include "lock/services.h"
#include "net/server.h"

bool lock_check_server(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure)
{
	return services_serve(server, failure) &&
	       server->service->check(server, request, take, context, failure);
}
