#include "lock/services.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "file/file_service.h"
#include "lock/service.h"
#include "net/server.h"
#include "net/tls.h"
#include "redis/redis_service.h"

static const struct lock_service *const services[] = {
	&file_service,
	&redis_service,
	&quorum_service,
};

static bool has_scheme(const char *url, const struct lock_scheme *scheme)
{
	size_t length = strlen(scheme->name);

	return strncmp(url, scheme->name, length) == 0 && url[length] == ':';
}

/* The service that has the URL's scheme; NULL: none. */
static const struct lock_service *find_service(const char *url, const struct lock_scheme **scheme)
{
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		for (*scheme = services[i]->schemes; (*scheme)->name; (*scheme)++)
			if (has_scheme(url, *scheme))
				return services[i];
	return NULL;
}

static bool read_url(struct server_reading *reading)
{
	struct server *server = reading->server;
	const struct lock_service *service = find_service(reading->text, &server->scheme);

	if (!service)
		return server_split(reading) && server_fault(reading, "an unknown scheme");
	server->tls = server->scheme->tls;
	server->service = service;
	return service->read_url(reading);
}

struct server *services_read_url(const char *url, struct failure *failure)
{
	struct server_reading reading = {.text = url, .failure = failure};
	bool done;

	reading.server = calloc(1, sizeof(*reading.server));
	if (!reading.server) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	done = read_url(&reading);
	url_close(&reading.url);
	if (done)
		return reading.server;
	server_free(reading.server);
	return NULL;
}

void services_print_forms(void)
{
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		printf("%s%s", services[i]->forms,
			i + 1 < sizeof(services) / sizeof(services[0]) ? ", or\n" : ".\n");
}

bool services_serve(const struct server *server, struct failure *failure)
{
	return !server->tls || tls_layer ||
	       failure_set(failure, EXIT_USAGE, "cannot use %s: this dlock was built without TLS",
		       server->text);
}
