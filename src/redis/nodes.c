#include "redis/nodes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "redis/command.h"
#include "redis/connection.h"
#include "redis/fault.h"
#include "redis/keys.h"
#include "redis/session.h"

#define KEY_SIZE 160 /* a prefix has 128 bytes at most */

static bool is_listed(const struct place *places, size_t count, const struct place *place)
{
	for (size_t i = 0; i < count; i++) {
		if (places[i].port == place->port && strcmp(places[i].host, place->host) == 0)
			return true;
	}
	return false;
}

/* Ranges of slots: first, last, the master (host, port, ...), its replicas. */
static enum wire read_slots(const struct session *session, const struct reply *reply,
	struct place **places, size_t *count, struct failure *failure)
{
	size_t most = reply_count(reply);

	if (most > KEYS_SLOTS) {
		fault_nonsense(failure, session_peer(session));
		return WIRE_FAILED;
	}
	*places = calloc(most + 1, sizeof(**places));
	if (!*places) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return WIRE_FAILED;
	}
	for (size_t i = 0; i < most; i++) {
		const struct reply *master = reply_at(reply_at(reply, i), 2);
		const char *host = reply_text(reply_at(master, 0));
		struct place *place = *places + *count;

		if (!route_place(&session->route, session->server, host ? host : "",
			    reply_integer(reply_at(master, 1)), place)) {
			failure_set(failure, EXIT_PROTOCOL,
				"%s names no address of a node of its cluster",
				session_peer(session));
			return WIRE_FAILED;
		}
		if (!is_listed(*places, *count, place))
			++*count;
	}
	return WIRE_OK;
}

/* Only a Cluster minds that two keys are in slots of their own. Asked by a command that status
 * takes anyway, so that rules for a single server need not let the user ask about Clusters, nor log
 * that he did. Where the prefix has a hash tag both are in one slot, as all locks are: then this
 * may be the node. */
static enum wire find_out(struct session *session, const char *prefix, bool *cluster,
	struct patience patience, struct failure *failure)
{
	static const char *const signs[] = {"CROSSSLOT ", "MOVED ", "ASK ", "CLUSTERDOWN "};
	char a[KEY_SIZE], b[KEY_SIZE];
	const char *words[] = {"MGET", a, b};
	struct reply *reply;
	const char *error;
	enum wire wire;

	snprintf(a, sizeof(a), "%s0", prefix);
	snprintf(b, sizeof(b), "%s1", prefix);
	wire = command_call(session->connection, &reply, 3, words, patience, failure);
	if (wire != WIRE_OK)
		return wire;
	error = reply_error(reply);
	*cluster = false;
	for (size_t i = 0; error && i < sizeof(signs) / sizeof(signs[0]); i++)
		*cluster = *cluster || strncmp(error, signs[i], strlen(signs[i])) == 0;
	reply_free(reply);
	return WIRE_OK;
}

enum wire nodes_find(struct session *session, const char *prefix, struct place **places,
	size_t *count, struct patience patience, struct failure *failure)
{
	const char *words[] = {"CLUSTER", "SLOTS"};
	struct reply *reply;
	bool cluster;
	enum wire wire = find_out(session, prefix, &cluster, patience, failure);

	*places = NULL;
	*count = 0;
	if (wire != WIRE_OK || !cluster)
		return wire;
	wire = command_call(session->connection, &reply, 2, words, patience, failure);
	if (wire != WIRE_OK)
		return wire;
	if (reply_error(reply)) {
		fault_read(reply_error(reply), session_peer(session), failure);
		wire = WIRE_FAILED;
	} else {
		wire = read_slots(session, reply, places, count, failure);
	}
	reply_free(reply);
	if (wire != WIRE_OK) {
		free(*places);
		*places = NULL;
	}
	return wire;
}
