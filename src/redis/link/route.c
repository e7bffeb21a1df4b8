/* Which server a link leads to. */
#include "redis/link/link.h"

#include <bsd/string.h>
#include <stdio.h>
#include <string.h>

#include "redis/redis_url.h"
#include "redis/link/connection.h"

#define MASTER_LIMIT NANOS_PER_SEC /* to connect to a master before Sentinels are asked again */

const char *link_server_name(const struct link *link)
{
	return link->route.text[0] != '\0' ? link->route.text : link->server->text;
}

static void write_name(struct link *link)
{
	struct route *route = &link->route;
	char *at = stpcpy(route->text, link->server->tls ? "rediss://" : "redis://");
	char *end = route->text + sizeof(route->text);

	at += place_write(at, (size_t)(end - at), route->last.host, route->last.port);
	if (link->server->db != 0)
		snprintf(at, (size_t)(end - at), "/%d", link->server->db);
}

static enum io_result connect_place(struct link *link, const struct place *place,
	struct deadline deadline, struct failure *failure)
{
	struct route *route = &link->route;
	struct endpoint endpoint = {.host = route->last.host, .port = place->port};

	route->last = *place;
	write_name(link);
	return connection_open(&link->connection, link->server, &endpoint, route->text,
		&link->lookup, deadline, failure);
}

/* A place of the URL's own. */
static enum io_result connect_own(
	struct link *link, struct deadline deadline, struct failure *failure)
{
	const struct server *server = link->server;

	link->route.last.host[0] = link->route.text[0] = '\0';
	return connection_open(&link->connection, server, &server->endpoints[0], server->text,
		&link->lookup, deadline, failure);
}

static enum io_result connect_master(
	struct link *link, struct deadline deadline, struct failure *failure)
{
	struct place master;
	enum io_result io =
		sentinel_find(link->server, &link->route.first, &master, deadline, failure);

	if (io != IO_OK)
		return io;
	io = connect_place(link, &master, deadline_within(deadline, MASTER_LIMIT), failure);
	return io == IO_CLOSED || io == IO_TIMEOUT ? IO_AGAIN : io;
}

enum io_result route_connect(struct link *link, struct deadline deadline, struct failure *failure)
{
	struct route *route = &link->route;
	struct place place = route->once;
	enum io_result io;

	if (redis_form(link->server) == REDIS_SENTINEL)
		return connect_master(link, deadline, failure);
	if (place.host[0] != '\0') {
		route->once.host[0] = '\0';
		return connect_place(link, &place, deadline, failure);
	}
	if (route->home.host[0] == '\0')
		return connect_own(link, deadline, failure);
	place = route->home;
	io = connect_place(link, &place, deadline, failure);
	if (io == IO_OK || io == IO_CANCELLED)
		return io;
	/* The other nodes know which one has taken its place. */
	route->home.host[0] = '\0';
	return io == IO_CLOSED ? connect_own(link, deadline, failure) : io;
}

bool route_place(const struct link *link, const char *host, int64_t port, struct place *place)
{
	const char *own = link->route.last.host;

	if (own[0] == '\0')
		own = redis_form(link->server) == REDIS_SOCKET ? "localhost"
							       : link->server->endpoints[0].host;
	if (strcmp(host, "?") == 0 || port < 1 || port > 65535)
		return false;
	place->port = (int)port;
	return strlcpy(place->host, host[0] != '\0' ? host : own, sizeof(place->host)) <
	       sizeof(place->host);
}

enum io_result route_redirect(struct link *link, const char *text, struct failure *failure)
{
	struct route *route = &link->route;
	const char *slot = strchr(text, ' ');
	const char *where = slot ? strchr(slot + 1, ' ') : NULL;
	struct place named, place;

	if (!where || !place_read(&named, where + 1) ||
		!route_place(link, named.host, named.port, &place)) {
		failure_set(failure, EXIT_PROTOCOL,
			"%s names no node of its cluster to turn to (%s)", link_server_name(link),
			text);
		return IO_FAILED;
	}
	if (++route->redirects > REDIRECTS_MOST) {
		route->redirects = 0;
		route->home.host[0] = '\0';
		failure_set(failure, EXIT_UNREACHABLE,
			"the nodes of the cluster of %s send from one to the other",
			link->server->text);
		return IO_AGAIN;
	}
	*(strncmp(text, "ASK", 3) == 0 ? &route->once : &route->home) = place;
	return IO_OK;
}
