#include "postgres/postgres_service.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/token.h"
#include "net/server.h"
#include "postgres/postgres_lock.h"

#define OUR_PREFIX "dlock_"

/* --- The URL -------------------------------------------------------------------------------------
 */

/* dlock_advisory=hashtext or a number. */
static bool read_setting(const struct server_reading *reading, const char *parameter)
{
	const char *value = strchr(parameter, '=');
	char *end;

	if (!value || strncmp(parameter, "dlock_advisory=", 15) != 0)
		return server_fault(reading, "an unknown parameter dlock_...");
	value++;
	strtoll(value, &end, 10);
	if (*value == '\0' || (*end != '\0' && strcmp(value, "hashtext") != 0))
		return server_fault(reading, "dlock_advisory= with neither a number nor hashtext");
	free(reading->server->setting);
	reading->server->setting = strdup(value);
	return reading->server->setting ||
	       failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
}

/* Takes what is ours off the query; the rest is libpq's. */
static bool take_settings(const struct server_reading *reading, char *url)
{
	char *query = strchr(url, '?');
	char *copy = query ? strdup(query + 1) : NULL, *rest = copy, *parameter;
	bool good = !query || copy || failure_set(reading->failure, EXIT_SYSTEM, "out of memory");

	if (!copy)
		return good;
	*query = '\0';
	while (good && (parameter = strsep(&rest, "&")) != NULL) {
		if (strncmp(parameter, OUR_PREFIX, strlen(OUR_PREFIX)) == 0) {
			good = read_setting(reading, parameter);
			continue;
		}
		strcat(url, strchr(url, '?') ? "&" : "?"); /* no longer than it was */
		strcat(url, parameter);
	}
	explicit_bzero(copy, strlen(copy));
	free(copy);
	return good;
}

/* What libpq has read, but for the password, as it reads that back: key='value' ... */
static char *write_conninfo(const PQconninfoOption *options)
{
	size_t size = 1, used = 0;
	char *text;

	for (const PQconninfoOption *o = options; o->keyword; o++)
		size += o->val ? strlen(o->keyword) + 2 * strlen(o->val) + 5 : 0;
	text = calloc(1, size);
	for (const PQconninfoOption *o = options; text && o->keyword; o++) {
		if (!o->val || strcmp(o->keyword, "password") == 0)
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s='", o->keyword);
		for (const char *c = o->val; *c; c++) {
			if (*c == '\'' || *c == '\\')
				text[used++] = '\\';
			text[used++] = *c;
		}
		used = strlcat(text, "' ", size);
	}
	return text;
}

static bool keep_options(const struct server_reading *reading, const PQconninfoOption *options)
{
	struct server *server = reading->server;

	for (const PQconninfoOption *o = options; o->keyword; o++)
		if (o->val && strcmp(o->keyword, "password") == 0)
			server->password = strdup(o->val);
	server->path = write_conninfo(options);
	return server->path || failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
}

static bool read_url(struct server_reading *reading)
{
	char *url = strdup(reading->text), *problem = NULL;
	PQconninfoOption *options = NULL;
	bool good;

	reading->server->text = strdup(reading->text);
	if (!url || !reading->server->text) {
		free(url);
		return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
	}
	server_scrub(reading->server->text);
	good = take_settings(reading, url);
	if (good) {
		options = PQconninfoParse(url, &problem);
		good = options ? keep_options(reading, options)
			       : server_fault(reading, "what libpq does not take");
	}
	PQconninfoFree(options);
	PQfreemem(problem);
	explicit_bzero(url, strlen(url));
	free(url);
	return good;
}

/* --- The lock ------------------------------------------------------------------------------------
 */

static struct lock *postgres_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct postgres_lock *p = calloc(1, sizeof(*p));

	if (!p) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	p->lock.service = &postgres_service;
	p->request = *request;
	p->session.server = server;
	snprintf(p->key, sizeof(p->key), "%s%s", request->prefix, request->name);
	owner_write(&request->self, p->owner);
	if (request->hold)
		strlcat(p->owner, "\thold=1", sizeof(p->owner));
	if (request->token)
		strlcpy(p->lock.token, request->token, sizeof(p->lock.token));
	else
		token_make(&request->self, p->lock.token);
	return &p->lock;
}

static void postgres_close(struct lock *lock)
{
	session_close(&((struct postgres_lock *)lock)->session);
	free(lock);
}

static void postgres_leave(struct lock *lock)
{
	session_leave(&((struct postgres_lock *)lock)->session);
}

static int postgres_watch_fd(const struct lock *lock)
{
	return session_fd(&((const struct postgres_lock *)lock)->session);
}

static const struct lock_scheme schemes[] = {
	{"postgres", false, 5432, 0}, {"postgresql", false, 5432, 0}, {0}};

static const struct lock_lack lacks[] = {
	{LOCK_CAN_REPLICATE, "synchronous_standby_names of the server decides that"},
	{LOCK_CAN_SETTLE, "the server does not forget its locks"},
	{0},
};

const struct lock_service postgres_service = {
	.name = "PostgreSQL",
	.schemes = schemes,
	.can = LOCK_CAN_SHARE | LOCK_CAN_PERMITS | LOCK_CAN_PRIORITY | LOCK_CAN_RECORD |
	       LOCK_CAN_KEEP | LOCK_CAN_DETACH | LOCK_CAN_JOIN | LOCK_CAN_FORCE,
	.lacks = lacks,
	.password_variable = "DLOCK_PASSWORD",
	.read_url = read_url,
	.open = postgres_open,
	.close = postgres_close,
	.take = postgres_take,
	.renew = postgres_renew,
	.release = postgres_release,
	.leave = postgres_leave,
	.wait = postgres_wait,
	.watch_fd = postgres_watch_fd,
	.force = postgres_force,
	.check = postgres_check,
	.list = &postgres_list_ops,
};
