#include "lock/services.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "file/file_lock.h"
#include "lock/name.h"
#include "lock/service.h"
#include "net/server.h"
#include "net/tls.h"
#include "redis/keys.h"
#include "redis/link/connection.h"
#include "redis/redis_service.h"

/* These are in programs of their own, and nowhere in any other. */
#define ELSEWHERE __attribute__((weak))
extern ELSEWHERE const struct lock_service postgres_service, etcd_service, zookeeper_service;
ELSEWHERE void postgres_library(char *text, size_t size);
ELSEWHERE void etcd_library(char *text, size_t size);
ELSEWHERE void zookeeper_library(char *text, size_t size);

/* A service whose library most runs don't need has its own program. dlock knows the schemes of its
 * URLs, and what dlock help says of them; the rest is that program's. */
static const struct row {
	const struct lock_service *service; /* NULL: it is not in this program */
	/* Writes which library speaks to the service, and its version; NULL: none does, or as
	 * above. */
	void (*library)(char *text, size_t size);
	const char *program;    /* NULL: it is in every program */
	const char *schemes[3]; /* if it has a program; ends with NULL */
	const char *forms;
} rows[] = {
	{&file_service, NULL, NULL, {NULL},
		"  file:[///DIR]\n"
		"      the locks of this host alone, in a folder, without a server\n"},
	{&redis_service, connection_library, NULL, {NULL},
		"  redis://[user[:password]@]host[:port][/db]\n"
		"      a Redis, or a node of a Redis Cluster; valkey:// is the same\n"
		"  unix:///PATH[?db=N]\n"
		"      a Redis by a socket of this host\n"
		"  redis+sentinel://host[:port],.../service[/db]\n"
		"      the master of a service that Redis Sentinels watch\n"},
	{&quorum_service, connection_library, NULL, {NULL},
		"  redis+quorum://host[:port],host,host[/db]\n"
		"      three or more independent Redis servers, of which a majority grants\n"
		"  rediss://, rediss+sentinel://, rediss+quorum://, valkeys://\n"
		"      the same by TLS; ?cacert=FILE&cert=FILE&key=FILE&sni=NAME&insecure=1\n"},
	{&postgres_service, postgres_library, "dlock-postgres", {"postgres", "postgresql"},
		"  postgres://[user[:password]@]host[:port],.../database[?parameter=value&...]\n"
		"      a PostgreSQL database, as psql takes it; postgresql:// is the same\n"},
	{&etcd_service, etcd_library, "dlock-etcd", {"etcd", "etcds"},
		"  etcd://[user:password@]host[:port],...\n"
		"      an etcd cluster; etcds:// by TLS, with the parameters of rediss://\n"},
	{&zookeeper_service, zookeeper_library, "dlock-zookeeper", {"zookeeper"},
		"  zookeeper://[user:password@]host[:port],...[/chroot]\n"
		"      a ZooKeeper ensemble, and a node for the locks\n"},
};

#define ROWS         (sizeof(rows) / sizeof(rows[0]))
#define LIBRARY_SIZE 64

/* Whether the URL begins with the scheme. */
static bool has_scheme(const char *url, const char *scheme)
{
	size_t length = strlen(scheme);

	return strncmp(url, scheme, length) == 0 && url[length] == ':';
}

/* The row that has the URL's scheme, and what the service says of that, if it is in this program.
 * NULL: none. */
static const struct row *find_row(const char *url, const struct lock_scheme **scheme)
{
	for (const struct row *row = rows; row < rows + ROWS; row++) {
		*scheme = row->service ? row->service->schemes : NULL;
		for (; *scheme && (*scheme)->name; (*scheme)++)
			if (has_scheme(url, (*scheme)->name))
				return row;
		for (const char *const *name = row->schemes; !row->service && *name; name++)
			if (has_scheme(url, *name))
				return row;
	}
	return NULL;
}

/* The program reads the URL; here it is only shown. */
static bool leave_to(const char *program, struct server_reading *reading)
{
	struct server *server = reading->server;

	server->program = program;
	server->text = strdup(reading->text);
	if (!server->text)
		return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
	server_scrub(server->text);
	return true;
}

static bool read_url(struct server_reading *reading)
{
	struct server *server = reading->server;
	const struct row *row = find_row(reading->text, &server->scheme);

	if (!row)
		return server_split(reading) && server_fault(reading, "an unknown scheme");
	if (!row->service)
		return leave_to(row->program, reading);
	server->tls = server->scheme->tls;
	if (server->tls && !tls_open)
		server->program = SERVICES_TLS_PROGRAM;
	server->service = row->service;
	return row->service->read_url(reading);
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
	server_split_end(&reading);
	if (done)
		return reading.server;
	server_free(reading.server);
	return NULL;
}

const char *services_name_fault(const char *name)
{
	const char *fault = name_fault(name);

	return fault || !keys_is_companion(name) ? fault : "ends like a companion key of dlock";
}

void services_print_forms(void)
{
	for (size_t i = 0; i < ROWS; i++)
		fputs(rows[i].forms, stdout);
}

void services_each_scheme(void (*take)(const char *scheme, void *context), void *context)
{
	for (size_t i = 0; i < ROWS; i++) {
		const struct lock_scheme *own = rows[i].service ? rows[i].service->schemes : NULL;

		if (rows[i].program)
			own = NULL;
		for (; own && own->name; own++)
			take(own->name, context);
		for (const char *const *scheme = rows[i].schemes; *scheme; scheme++)
			take(*scheme, context);
	}
}

void services_each(void (*tell)(const char *scheme, const char *program, const char *library))
{
	for (size_t i = 0; i < ROWS; i++) {
		const struct lock_service *service = rows[i].service;
		const char *scheme = service ? service->schemes->name : rows[i].schemes[0];
		char text[LIBRARY_SIZE] = "";

		if (rows[i].library)
			rows[i].library(text, sizeof(text));
		tell(scheme, rows[i].program, text);
	}
}

bool services_own_library(char *text, size_t size)
{
	*text = '\0';
	if (tls_library)
		tls_library(text, size);
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].program && rows[i].library)
			rows[i].library(text, size);
	return *text != '\0';
}

bool services_miss(const struct server *server, struct failure *failure)
{
	/* TLS is no package of its own. */
	return failure_set(failure, EXIT_CONFIG, "cannot use %s: the %s %s is not installed",
		server->text, server->service ? "program" : "package", server->program);
}

bool services_serve(const struct server *server, struct failure *failure)
{
	return !server->program || services_miss(server, failure);
}
