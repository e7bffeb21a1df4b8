/* The row of the service: its URLs, and a lock from its beginning to its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/etcd_lock.h"
#include "net/server.h"

#define TTL_LEAST 2000 /* ms: etcd makes more of less */

/* TLS is libcurl's trade, but its parameters are those of all. */
static bool read_url(struct server_reading *reading)
{
	struct server *server = reading->server;

	if (!server_split(reading))
		return false;
	server->tls = server->scheme->form == 1;
	server->text[strcspn(server->text, "?")] = '\0';
	if (reading->url.path && *reading->url.path != '\0')
		return server_fault(reading, "a path: etcd has none (see --prefix)");
	return server_read_hosts(reading, server->scheme->port) && server_read_query(reading, NULL);
}

static struct lock *open_lock(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct etcd_lock *e;

	if (request->ttl_ms != 0 && request->ttl_ms < TTL_LEAST) {
		failure_set(
			failure, EXIT_CONFIG, "a TTL of less than 2s (-t) cannot be had from etcd");
		return NULL;
	}
	e = lock_new(sizeof(*e), &etcd_service, request, failure);
	if (!e)
		return NULL;
	e->request = *request;
	e->server = server;
	e->guard.news_fd = e->guard.stop_fd = -1;
	gateway_open(&e->gateway, server);
	etcd_key_range(request->prefix, request->name, e->from, e->to);
	e->contest = (struct contest){&etcd_contest, &e->lock, &e->request, e->lock.token};
	etcd_begin(&e->lock);
	return &e->lock;
}

static void close_lock(struct lock *lock)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;

	etcd_guard_stop(e);
	etcd_wait_stop(e);
	gateway_close(&e->gateway);
	free(e);
}

static const struct lock_scheme schemes[] = {
	{"etcd", false, 2379, 0}, {"etcds", false, 2379, 1}, {0}};

void etcd_library(char *text, size_t size)
{
	snprintf(text, size, "libcurl %s", curl_version_info(CURLVERSION_NOW)->version);
}

static const struct lock_lack lacks[] = {
	{LOCK_CAN_PRIORITY, "it serves in the order of arrival"},
	{LOCK_CAN_RECORD, "it keeps no record of successes"},
	{LOCK_CAN_REPLICATE, "a majority of its members has every grant"},
	{LOCK_CAN_SETTLE, "it does not forget its locks when it restarts"},
	{0},
};

const struct lock_service etcd_service = {
	.name = "etcd",
	.schemes = schemes,
	.can = LOCK_CAN_SHARE | LOCK_CAN_PERMITS | LOCK_CAN_KEEP | LOCK_CAN_DETACH | LOCK_CAN_JOIN |
	       LOCK_CAN_FORCE,
	.lacks = lacks,
	.password_variable = "ETCDCTL_PASSWORD",
	.read_url = read_url,
	.open = open_lock,
	.close = close_lock,
	.take = etcd_take,
	.renew = etcd_renew,
	.release = etcd_release,
	.wait = etcd_wait,
	.watch_fd = etcd_watch_fd,
	.force = etcd_force,
	.check = etcd_check,
	.list = etcd_list,
};
