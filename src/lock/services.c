#include "lock/services.h"

#include "lock/service.h"
#include "net/server.h"
#include "net/tls.h"
#include "redis/quorum/quorum_service.h"
#include "redis/redis_service.h"

/* Which lock service speaks what a URL's scheme stands for; NULL: none does yet. */
static const struct lock_service *const services[] = {
	[SERVER_REDIS] = &redis_service,
	[SERVER_UNIX] = &redis_service,
	[SERVER_SENTINEL] = &redis_service,
	[SERVER_QUORUM] = &quorum_service,
};

const struct lock_service *services_find(const struct server *server, struct failure *failure)
{
	const struct lock_service *service = services[server->scheme];

	if (server->tls && !tls_layer) {
		failure_set(failure, EXIT_USAGE, "cannot use %s: this dlock was built without TLS",
			server->text);
		return NULL;
	}
	if (!service)
		failure_set(failure, EXIT_USAGE,
			"cannot use %s: this dlock knows single servers only", server->text);
	return service;
}
