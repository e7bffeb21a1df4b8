#include "redis/nodes.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "redis/command.h"
#include "redis/connection.h"
#include "redis/fault.h"
#include "redis/session.h"

#define PROBES 16 /* all on one of two nodes: once in 65536 times */

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

/* Whether it sends for any of some keys, which lie in slots of their own, to another node. */
static enum wire look_for_others(struct session *session, const char *prefix, bool *found,
	struct patience patience, struct failure *failure)
{
	char key[160];
	const char *words[] = {"GET", key};
	enum wire wire = WIRE_OK;

	*found = false;
	for (int i = 0; wire == WIRE_OK && !*found && i < PROBES; i++) {
		struct reply *reply;

		snprintf(key, sizeof(key), "%s%d", prefix, i);
		wire = command_call(session->connection, &reply, 2, words, patience, failure);
		if (wire != WIRE_OK)
			break;
		*found = reply_error(reply) && strncmp(reply_error(reply), "MOVED ", 6) == 0;
		reply_free(reply);
	}
	return wire;
}

/* Rules that are made for a single server need not let this user ask. */
static enum wire heed_refusal(struct session *session, const char *prefix, const char *error,
	struct patience patience, struct failure *failure)
{
	bool cluster = false;
	enum wire wire = WIRE_OK;

	if (strncmp(error, "NOPERM", 6) == 0)
		wire = look_for_others(session, prefix, &cluster, patience, failure);
	if (!cluster)
		return wire;
	fault_read(error, session_peer(session), failure);
	return WIRE_FAILED;
}

enum wire nodes_find(struct session *session, const char *prefix, struct place **places,
	size_t *count, struct patience patience, struct failure *failure)
{
	const char *words[] = {"CLUSTER", "SLOTS"};
	struct reply *reply;
	enum wire wire = command_call(session->connection, &reply, 2, words, patience, failure);

	*places = NULL;
	*count = 0;
	if (wire != WIRE_OK)
		return wire;
	if (reply_error(reply))
		wire = heed_refusal(session, prefix, reply_error(reply), patience, failure);
	else
		wire = read_slots(session, reply, places, count, failure);
	reply_free(reply);
	if (wire != WIRE_OK) {
		free(*places);
		*places = NULL;
	}
	return wire;
}
