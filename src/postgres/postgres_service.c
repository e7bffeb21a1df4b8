#include "postgres/postgres_service.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/token.h"
#include "net/server.h"
#include "postgres/postgres_lock.h"

static bool read_url(struct server_reading *reading)
{
	struct server *server = reading->server;
	PQconninfoOption *options;

	server->text = strdup(reading->text);
	server->path = strdup(reading->text);
	if (!server->text || !server->path)
		return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
	server_scrub(server->text);
	/* All else is libpq's. */
	if (!server_cut_parameter(reading, server->path, "dlock_advisory=", &server->setting))
		return false;
	if (server->setting && !number_is(server->setting) &&
		strcmp(server->setting, "hashtext") != 0)
		return server_fault(reading, "dlock_advisory= with neither a number nor hashtext");
	/* libpq reads it again as it connects; what it takes is known now, and the password. */
	options = PQconninfoParse(server->path, NULL);
	for (const PQconninfoOption *o = options; o && o->keyword; o++)
		if (o->val && strcmp(o->keyword, "password") == 0)
			server->password = strdup(o->val);
	PQconninfoFree(options);
	return options || server_fault(reading, "what libpq does not take");
}

static struct lock *postgres_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct postgres_lock *p = lock_new(sizeof(*p), &postgres_service, request, failure);

	if (!p)
		return NULL;
	p->request = *request;
	p->session.server = server;
	snprintf(p->key, sizeof(p->key), "%s%s", request->prefix, request->name);
	postgres_write_owner(request, p->owner);
	token_begin(request, p->lock.token);
	return &p->lock;
}

static void postgres_close(struct lock *lock)
{
	postgres_session_close(&((struct postgres_lock *)lock)->session);
	free(lock);
}

static int postgres_watch_fd(const struct lock *lock)
{
	const struct postgres_session *session = &((const struct postgres_lock *)lock)->session;

	return session->connection && session->is_set ? PQsocket(session->connection) : -1;
}

static const struct lock_scheme schemes[] = {
	{"postgres", false, 5432, 0}, {"postgresql", false, 5432, 0}, {0}};

void postgres_library(char *text, size_t size)
{
	int version = PQlibVersion();

	snprintf(text, size, "libpq %d.%d", version / 10000, version % 10000);
}

static const struct lock_lack lacks[] = {
	{LOCK_CAN_REPLICATE, "synchronous_standby_names of the server decides that"},
	{LOCK_CAN_SETTLE, "the server does not forget its locks"},
	{0},
};

const struct lock_service postgres_service = {
	.name = "PostgreSQL",
	.schemes = schemes,
	.can = LOCK_CAN_SHARE | LOCK_CAN_PERMITS | LOCK_CAN_PRIORITY | LOCK_CAN_RECORD |
	       LOCK_CAN_KEEP | LOCK_CAN_DETACH | LOCK_CAN_JOIN | LOCK_CAN_FORCE | LOCK_CAN_SHOW,
	.lacks = lacks,
	.password_variable = "DLOCK_PASSWORD",
	.read_url = read_url,
	.open = postgres_open,
	.close = postgres_close,
	.take = postgres_take,
	.take_over = postgres_take_over,
	.renew = postgres_renew,
	.release = postgres_release,
	.wait = postgres_wait,
	.watch_fd = postgres_watch_fd,
	.force = postgres_force,
	.check = postgres_check,
	.list = postgres_list,
};
