/* The row of the service ZooKeeper, from 3.5 on. It is in the program dlock-zookeeper alone. */
#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/server.h"
#include "zookeeper/zookeeper_lock.h"

static bool read_parameter(
	const struct server_reading *reading, const char *name, char *value, bool *known)
{
	*known = strcmp(name, "style") == 0;
	if (!*known)
		return true;
	if (strcmp(value, "kazoo") != 0 && strcmp(value, "curator") != 0 &&
		strcmp(value, "curator-rw") != 0)
		return server_fault(reading, "a style= that is none of kazoo, curator, curator-rw");
	return server_keep(reading, value, &reading->server->setting);
}

/* CHROOT: no empty part, "." nor "..", as ZooKeeper has it. */
static bool keep_chroot(const struct server_reading *reading)
{
	char *path = reading->url.path, *copy, *rest, *part;
	bool good = true;

	if (!path || *path == '\0')
		return true;
	path[strcspn(path, "?")] = '\0';
	path--; /* the '/' before it */
	*path = '/';
	copy = rest = strdup(path + 1);
	if (!copy)
		return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
	while (good && (part = strsep(&rest, "/")) != NULL)
		good = *part != '\0' && strcmp(part, ".") != 0 && strcmp(part, "..") != 0;
	free(copy);
	if (!good || strlen(path) > NODE_SIZE / 3)
		return server_fault(reading, "a path that is no node of ZooKeeper's");
	return server_keep(reading, path, &reading->server->path);
}

static bool read_url(struct server_reading *reading)
{
	struct server *server = reading->server;

	return server_split(reading) && server_keep(reading, reading->url.user, &server->user) &&
	       server_keep(reading, reading->url.password, &server->password) &&
	       server_read_hosts(reading, server->scheme->port, true) && keep_chroot(reading) &&
	       server_read_query(reading, read_parameter);
}

static struct lock *open_lock(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct zookeeper_lock *z = lock_new(sizeof(*z), &zookeeper_service, request, failure);

	if (!z)
		return NULL;
	z->request = *request;
	z->session.server = server;
	z->session.fd = -1;
	zookeeper_queue_path(server, request->prefix, request->name, z->path);
	z->contest = (struct contest){&zookeeper_contest, &z->lock, &z->request, z->id};
	zookeeper_begin(&z->lock);
	return &z->lock;
}

static void close_lock(struct lock *lock)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;

	zookeeper_session_end(&z->session);
	zookeeper_session_close(&z->session);
	free(z);
}

/* Readable by the watch on our node, or by the end of the connection. */
static int watch_fd(const struct lock *lock)
{
	const struct zookeeper_lock *z = (const struct zookeeper_lock *)lock;

	return z->session.handle && z->state >= ZOOKEEPER_HOLDING ? z->session.fd : -1;
}

static const struct lock_scheme schemes[] = {{"zookeeper", false, 2181, 0}, {0}};

void zookeeper_library(char *text, size_t size)
{
	snprintf(text, size, "libzookeeper %s", ZOO_VERSION);
}

static const struct lock_lack lacks[] = {
	{LOCK_CAN_PRIORITY, "it serves in the order of arrival"},
	{LOCK_CAN_RECORD, "it keeps no record of successes"},
	{LOCK_CAN_KEEP, "a lock ends with its session there"},
	{LOCK_CAN_DETACH, "a lock ends with its session there"},
	{LOCK_CAN_REPLICATE, "a majority of its servers has every grant"},
	{LOCK_CAN_SETTLE, "it does not forget its locks when it restarts"},
	{0},
};

const struct lock_service zookeeper_service = {
	.name = "ZooKeeper",
	.schemes = schemes,
	.can = LOCK_CAN_SHARE | LOCK_CAN_PERMITS | LOCK_CAN_JOIN | LOCK_CAN_FORCE,
	.lacks = lacks,
	.password_variable = "DLOCK_PASSWORD",
	.read_url = read_url,
	.open = open_lock,
	.close = close_lock,
	.take = zookeeper_take,
	.take_over = zookeeper_take_over,
	.renew = zookeeper_renew,
	.release = zookeeper_release,
	.wait = zookeeper_wait,
	.watch_fd = watch_fd,
	.force = zookeeper_force,
	.check = zookeeper_check,
	.list = zookeeper_list,
};
