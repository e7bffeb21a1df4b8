#include "redis/sentinel.h"

#include <stdio.h>
#include <string.h>

#include "failure.h"
#include "redis/command.h"
#include "redis/connection.h"
#include "redis/fault.h"
#include "redis/resolve.h"
#include "redis/route.h"
#include "server.h"

#define FIRST_SHARE (250 * NANOS_PER_MS) /* of the time, for one of them */

/* One sentinel that is being asked. */
struct sentinel {
	const struct server *server;
	char name[ROUTE_TEXT];
	struct connection *connection;
	struct patience patience;
	struct failure *failure;
};

static enum wire request(
	struct sentinel *sentinel, struct reply **reply, size_t count, const char *const *words)
{
	return command_call(
		sentinel->connection, reply, count, words, sentinel->patience, sentinel->failure);
}

static enum wire ask_for_master(struct sentinel *sentinel, struct reply **reply)
{
	const char *words[] = {"SENTINEL", "get-master-addr-by-name", sentinel->server->service};

	return request(sentinel, reply, 3, words);
}

static bool wants_password(const struct sentinel *sentinel, const struct reply *reply)
{
	const char *error = reply_error(reply);

	return error && strncmp(error, "NOAUTH", 6) == 0 &&
	       (sentinel->server->user || sentinel->server->password);
}

static enum wire authenticate(struct sentinel *sentinel, struct reply **reply)
{
	const struct server *server = sentinel->server;
	const char *password = server->password ? server->password : "";
	const char *as_user[] = {"AUTH", server->user, password};
	const char *as_default[] = {"AUTH", password};

	return server->user ? request(sentinel, reply, 3, as_user)
			    : request(sentinel, reply, 2, as_default);
}

/* The reply names the master; WIRE_AGAIN: this sentinel does not know the service. */
static enum wire read_master(
	struct sentinel *sentinel, const struct reply *reply, struct place *master)
{
	const char *host = reply_text(reply_at(reply, 0));
	const char *port = reply_text(reply_at(reply, 1));
	char text[ROUTE_TEXT];

	if (reply_is_nil(reply)) {
		failure_set(sentinel->failure, EXIT_CONFIG, "%s does not know the service '%s'",
			sentinel->name, sentinel->server->service);
		return WIRE_AGAIN;
	}
	if (reply_error(reply)) {
		fault_read(reply_error(reply), sentinel->name, sentinel->failure);
		return WIRE_FAILED;
	}
	if (host && *host && port && snprintf(text, sizeof(text), "%s:%s", host, port) > 0 &&
		place_read(master, text))
		return WIRE_OK;
	fault_nonsense(sentinel->failure, sentinel->name);
	return WIRE_FAILED;
}

static enum wire ask(struct sentinel *sentinel, struct place *master)
{
	struct reply *reply = NULL;
	enum wire wire = ask_for_master(sentinel, &reply);

	if (wire == WIRE_OK && wants_password(sentinel, reply)) {
		reply_free(reply);
		wire = authenticate(sentinel, &reply);
		if (wire == WIRE_OK && !reply_error(reply)) {
			reply_free(reply);
			wire = ask_for_master(sentinel, &reply);
		}
	}
	if (wire != WIRE_OK)
		return wire;
	wire = read_master(sentinel, reply, master);
	reply_free(reply);
	return wire;
}

static enum wire ask_one(const struct server *server, const struct endpoint *endpoint,
	struct place *master, struct patience patience, struct failure *failure)
{
	bool v6 = strchr(endpoint->host, ':') != NULL;
	struct sentinel sentinel = {.server = server, .patience = patience, .failure = failure};
	struct lookup *lookup = NULL;
	enum wire wire;

	snprintf(sentinel.name, sizeof(sentinel.name), "the sentinel %s%s%s:%d", v6 ? "[" : "",
		endpoint->host, v6 ? "]" : "", endpoint->port);
	wire = connection_open(
		&sentinel.connection, server, endpoint, sentinel.name, &lookup, patience, failure);
	resolve_abandon(lookup);
	if (wire != WIRE_OK)
		return wire;
	wire = ask(&sentinel, master);
	connection_close(sentinel.connection);
	return wire;
}

/* What a round has come to, when nobody named a master. */
struct round {
	size_t silent, ignorant;
	struct failure failure; /* of one that gave another answer than that it does not know */
};

static enum wire go_round(const struct server *server, size_t *first, struct place *master,
	struct patience patience, nanos share, struct round *round)
{
	*round = (struct round){0};
	for (size_t i = 0; i < server->endpoint_count; i++) {
		size_t index = (*first + i) % server->endpoint_count;
		struct failure failure;
		enum wire wire = ask_one(server, &server->endpoints[index], master,
			patience_within(patience, share), &failure);

		if (wire == WIRE_OK)
			*first = index;
		if (wire == WIRE_OK || wire == WIRE_CANCELLED)
			return wire;
		if (wire == WIRE_AGAIN)
			round->ignorant++;
		else
			round->failure = failure;
		if (wire == WIRE_TIMEOUT)
			round->silent++;
	}
	return WIRE_CLOSED;
}

enum wire sentinel_find(const struct server *server, size_t *first, struct place *master,
	struct patience patience, struct failure *failure)
{
	nanos share = FIRST_SHARE;
	struct round round;
	enum wire wire;

	do {
		wire = go_round(server, first, master, patience, share, &round);
		if (wire != WIRE_CLOSED)
			return wire;
		share *= 2;
	} while (round.silent > 0 && clock_now() < patience.until);
	if (round.ignorant == server->endpoint_count) {
		failure_set(failure, EXIT_CONFIG, "no sentinel of %s knows the service '%s'",
			server->text, server->service);
		return WIRE_FAILED;
	}
	failure_set(failure, round.failure.code, "no sentinel names a master for '%s': %s",
		server->service, round.failure.text);
	if (round.silent > 0)
		return WIRE_TIMEOUT;
	return round.failure.code == EXIT_UNREACHABLE ? WIRE_CLOSED : WIRE_FAILED;
}
