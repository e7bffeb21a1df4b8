#include "redis/nodes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "redis/command.h"
#include "redis/connection.h"
#include "redis/session.h"

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

enum wire nodes_find(struct session *session, struct place **places, size_t *count,
	struct patience patience, struct failure *failure)
{
	const char *words[] = {"CLUSTER", "SLOTS"};
	struct reply *reply;
	enum wire wire = command_call(session->connection, &reply, 2, words, patience, failure);

	*places = NULL;
	*count = 0;
	if (wire != WIRE_OK)
		return wire;
	if (!reply_error(reply))
		wire = read_slots(session, reply, places, count, failure);
	reply_free(reply);
	if (wire != WIRE_OK) {
		free(*places);
		*places = NULL;
	}
	return wire;
}
