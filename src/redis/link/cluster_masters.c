/* The masters of a Redis Cluster. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "redis/keys.h"
#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/link/link.h"

#define KEY_SIZE 160 /* a prefix has 128 bytes at most */

static bool is_listed(const struct place *places, size_t count, const struct place *place)
{
	for (size_t i = 0; i < count; i++)
		if (places[i].port == place->port && strcmp(places[i].host, place->host) == 0)
			return true;
	return false;
}

/* Ranges of slots: first, last, the master (host, port, ...), its replicas. */
static enum io_result read_slots(const struct link *link, const struct reply *reply,
	struct place **places, size_t *count, struct failure *failure)
{
	size_t most = reply_count(reply);

	if (most > KEYS_SLOTS) {
		error_reply_nonsense(failure, link_server_name(link));
		return IO_FAILED;
	}
	*places = calloc(most + 1, sizeof(**places));
	if (!*places) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return IO_FAILED;
	}
	for (size_t i = 0; i < most; i++) {
		const struct reply *master = reply_at(reply_at(reply, i), 2);
		const char *host = reply_text(reply_at(master, 0));
		struct place *place = *places + *count;

		if (!route_place(
			    link, host ? host : "", reply_integer(reply_at(master, 1)), place)) {
			failure_set(failure, EXIT_PROTOCOL,
				"%s names no address of a node of its cluster",
				link_server_name(link));
			return IO_FAILED;
		}
		if (!is_listed(*places, *count, place))
			++*count;
	}
	return IO_OK;
}

/* Only a Cluster minds that two keys are in slots of their own. Asked by a command that status
 * takes anyway. So on a single server the ACL rules need not allow the user to ask about Clusters,
 * and log no refusal. If the prefix has a hash tag, both keys are in one slot, as all locks are:
 * then this may be the node. */
static enum io_result find_out(struct link *link, const char *prefix, bool *cluster,
	struct deadline deadline, struct failure *failure)
{
	static const char *const signs[] = {"CROSSSLOT ", "MOVED ", "ASK ", "CLUSTERDOWN "};
	char a[KEY_SIZE], b[KEY_SIZE];
	struct reply *reply;
	const char *error;
	enum io_result io;

	snprintf(a, sizeof(a), "%s0", prefix);
	snprintf(b, sizeof(b), "%s1", prefix);
	io = connection_call(link->connection, &reply, WORDS("MGET", a, b), deadline, failure);
	if (io != IO_OK)
		return io;
	error = reply_error(reply);
	*cluster = false;
	for (size_t i = 0; error && i < sizeof(signs) / sizeof(signs[0]); i++)
		*cluster = *cluster || strncmp(error, signs[i], strlen(signs[i])) == 0;
	reply_free(reply);
	return IO_OK;
}

enum io_result cluster_masters_find(struct link *link, const char *prefix, struct place **places,
	size_t *count, struct deadline deadline, struct failure *failure)
{
	struct reply *reply;
	bool cluster;
	enum io_result io = find_out(link, prefix, &cluster, deadline, failure);

	*places = NULL;
	*count = 0;
	if (io == IO_OK && cluster)
		io = link_ask(link, &reply, WORDS("CLUSTER", "SLOTS"), deadline, failure);
	if (io != IO_OK || !cluster)
		return io;
	io = read_slots(link, reply, places, count, failure);
	reply_free(reply);
	return io;
}
