#include "redis/link/route.h"

#include <bsd/string.h>
#include <stdio.h>
#include <string.h>

#include "base/failure.h"
#include "net/resolve.h"
#include "net/server.h"
#include "redis/redis_url.h"
#include "redis/link/connection.h"

#define MASTER_LIMIT NANOS_PER_SEC /* to connect to a master before Sentinels are asked again */

const char *route_name(const struct route *route, const struct server *server)
{
	return route->text[0] != '\0' ? route->text : server->text;
}

static void write_name(struct route *route, const struct server *server)
{
	char *at = stpcpy(route->text, server->tls ? "rediss://" : "redis://");
	char *end = route->text + sizeof(route->text);

	at += place_write(at, (size_t)(end - at), route->last.host, route->last.port);
	if (server->db != 0)
		snprintf(at, (size_t)(end - at), "/%d", server->db);
}

/* A lookup belongs to one host. */
static void leave_last(struct route *route, struct lookup **lookup)
{
	resolve_abandon(*lookup);
	*lookup = NULL;
	route->last.host[0] = route->text[0] = '\0';
}

static enum io_result connect_place(struct route *route, const struct server *server,
	const struct place *place, struct connection **connection, struct lookup **lookup,
	struct deadline deadline, struct failure *failure)
{
	struct endpoint endpoint;

	if (strcmp(route->last.host, place->host) != 0)
		leave_last(route, lookup);
	route->last = *place;
	write_name(route, server);
	endpoint = (struct endpoint){.host = route->last.host, .port = route->last.port};
	return connection_open(
		connection, server, &endpoint, route->text, lookup, deadline, failure);
}

/* A place of the URL's own. */
static enum io_result connect_own(struct route *route, const struct server *server,
	struct connection **connection, struct lookup **lookup, struct deadline deadline,
	struct failure *failure)
{
	if (route->last.host[0] != '\0')
		leave_last(route, lookup);
	return connection_open(
		connection, server, &server->endpoints[0], server->text, lookup, deadline, failure);
}

static enum io_result connect_master(struct route *route, const struct server *server,
	struct connection **connection, struct lookup **lookup, struct deadline deadline,
	struct failure *failure)
{
	struct place master;
	enum io_result io = sentinel_find(server, &route->first, &master, deadline, failure);

	if (io != IO_OK)
		return io;
	io = connect_place(route, server, &master, connection, lookup,
		deadline_within(deadline, MASTER_LIMIT), failure);
	return io == IO_CLOSED || io == IO_TIMEOUT ? IO_AGAIN : io;
}

enum io_result route_connect(struct route *route, const struct server *server,
	struct connection **connection, struct lookup **lookup, struct deadline deadline,
	struct failure *failure)
{
	struct place place = route->once;
	enum io_result io;

	if (redis_form(server) == REDIS_SENTINEL)
		return connect_master(route, server, connection, lookup, deadline, failure);
	if (place.host[0] != '\0') {
		route->once.host[0] = '\0';
		return connect_place(route, server, &place, connection, lookup, deadline, failure);
	}
	if (route->home.host[0] == '\0')
		return connect_own(route, server, connection, lookup, deadline, failure);
	place = route->home;
	io = connect_place(route, server, &place, connection, lookup, deadline, failure);
	if (io == IO_OK || io == IO_CANCELLED)
		return io;
	/* The other nodes know which one has taken its place. */
	route->home.host[0] = '\0';
	return io == IO_CLOSED ? connect_own(route, server, connection, lookup, deadline, failure)
			       : io;
}

bool route_place(const struct route *route, const struct server *server, const char *host,
	int64_t port, struct place *place)
{
	const char *own = route->last.host;

	if (own[0] == '\0')
		own = redis_form(server) == REDIS_SOCKET ? "localhost" : server->endpoints[0].host;
	if (strcmp(host, "?") == 0 || port < 1 || port > 65535)
		return false;
	place->port = (int)port;
	return strlcpy(place->host, host[0] != '\0' ? host : own, sizeof(place->host)) <
	       sizeof(place->host);
}

enum io_result route_redirect(struct route *route, const struct server *server, const char *text,
	bool *once, struct failure *failure)
{
	const char *name = route_name(route, server);
	const char *slot = strchr(text, ' ');
	const char *where = slot ? strchr(slot + 1, ' ') : NULL;
	struct place named, place;

	*once = strncmp(text, "ASK", 3) == 0;
	if (!where || !place_read(&named, where + 1) ||
		!route_place(route, server, named.host, named.port, &place)) {
		failure_set(failure, EXIT_PROTOCOL,
			"%s names no node of its cluster to turn to (%s)", name, text);
		return IO_FAILED;
	}
	if (++route->redirects > REDIRECTS_MOST) {
		route->redirects = 0;
		route->home.host[0] = '\0';
		failure_set(failure, EXIT_UNREACHABLE,
			"the nodes of the cluster of %s send from one to the other", server->text);
		return IO_AGAIN;
	}
	*(*once ? &route->once : &route->home) = place;
	return IO_OK;
}

bool route_leads_to(const struct route *route, const struct place *place)
{
	return route->last.port == place->port && strcmp(route->last.host, place->host) == 0;
}
