#include "redis/redis_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/failure.h"

#define DB_MOST      1000000
#define QUORUM_LEAST 3

const struct lock_scheme redis_schemes[] = {
	{"redis", false, 6379, REDIS_SINGLE},
	{"rediss", true, 6379, REDIS_SINGLE},
	{"unix", false, 0, REDIS_SOCKET},
	{"redis+sentinel", false, 26379, REDIS_SENTINEL},
	{"rediss+sentinel", true, 26379, REDIS_SENTINEL},
	{"valkey", false, 6379, REDIS_SINGLE},
	{"valkeys", true, 6379, REDIS_SINGLE},
	{0},
};

const struct lock_scheme redis_quorum_schemes[] = {
	{"redis+quorum", false, 6379, REDIS_QUORUM},
	{"rediss+quorum", true, 6379, REDIS_QUORUM},
	{0},
};

enum redis_form redis_form(const struct server *server)
{
	return (enum redis_form)server->scheme->form;
}

void redis_one_of(
	const struct server *list, size_t which, struct server *one, char name[static PLACE_TEXT])
{
	struct endpoint *endpoint = &list->endpoints[which];

	place_write(name, PLACE_TEXT, endpoint->host, endpoint->port);
	*one = *list;
	one->scheme = &redis_schemes[list->tls];
	one->endpoints = endpoint;
	one->endpoint_count = 1;
	one->text = name;
}

static bool read_db(const struct server_reading *reading, const char *text)
{
	if (!server_read_number(text, 0, DB_MOST, &reading->server->db))
		return server_fault(reading, "a database that is no number from 0 to 1000000");
	return true;
}

static bool read_socket(const struct server_reading *reading)
{
	struct server *server = reading->server;
	char *path = reading->url.path;

	server->endpoints = calloc(1, sizeof(*server->endpoints));
	if (server->endpoints == NULL)
		return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
	server->endpoint_count = 1;
	if (*reading->url.hosts != '\0' || path == NULL || *path == '\0')
		return server_fault(reading, "no absolute path (unix:///path)");
	/* The '/' before it was overwritten when the hosts were cut off. */
	*--path = '/';
	if (!server_keep(reading, path, &server->endpoints[0].host))
		return false;
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): it was just kept */
	if (strlen(server->endpoints[0].host) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return server_fault(reading, "a path of more than 107 bytes");
	return true;
}

/* Four servers bear the loss of one, as three do, and more of them can be lost. */
static bool remark_even(const struct server_reading *reading)
{
	struct server *server = reading->server;
	size_t count = server->endpoint_count;

	if (count % 2 != 0)
		return true;
	if (asprintf(&server->remark,
		    "of the quorum's %zu servers only %zu may fail, as of %zu; list an odd number",
		    count, (count - 1) / 2, count - 1) >= 0)
		return true;
	server->remark = NULL;
	return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
}

static bool read_hosts(const struct server_reading *reading)
{
	enum redis_form form = redis_form(reading->server);

	if (form == REDIS_SINGLE && strchr(reading->url.hosts, ','))
		return server_fault(
			reading, "more hosts than one (+sentinel and +quorum take a list)");
	if (!server_read_hosts(reading, reading->server->scheme->port))
		return false;
	if (form != REDIS_QUORUM)
		return true;
	if (reading->server->endpoint_count < QUORUM_LEAST)
		return server_fault(reading, "fewer than the three servers that a quorum needs");
	if (reading->server->endpoint_count > QUORUM_MOST)
		return server_fault(reading, "more than 64 servers");
	return remark_even(reading);
}

/* [db], after a service/ for Sentinel. */
static bool read_path(const struct server_reading *reading)
{
	char *rest = reading->url.path;

	if (redis_form(reading->server) == REDIS_SENTINEL) {
		char *service = strsep(&rest, "/");

		if (service == NULL || *service == '\0')
			return server_fault(reading, "no service");
		if (!server_keep(reading, service, &reading->server->path))
			return false;
	}
	return rest == NULL || *rest == '\0' || read_db(reading, rest);
}

static bool read_parameter(
	const struct server_reading *reading, const char *name, char *value, bool *known)
{
	*known = strcmp(name, "db") == 0 && redis_form(reading->server) == REDIS_SOCKET;
	return *known && read_db(reading, value);
}

/* Without the text behind the '?': in a URL with TLS it does not say where the server is, and it
 * is long. */
static void show_less(const struct server *server)
{
	if (server->tls)
		server->text[strcspn(server->text, "?")] = '\0';
}

bool redis_read_url(struct server_reading *reading)
{
	struct server *server = reading->server;

	if (!server_split(reading))
		return false;
	show_less(server);
	return (redis_form(server) == REDIS_SOCKET ? read_socket(reading)
						   : read_hosts(reading) && read_path(reading)) &&
	       server_read_query(reading, read_parameter);
}
