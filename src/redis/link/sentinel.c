#include "redis/link/link.h"

#include <stdio.h>
#include <string.h>

#include "net/resolve.h"
#include "net/password.h"
#include "redis/link/connection.h"
#include "redis/link/error_reply.h"

#define FIRST_SHARE (250 * NANOS_PER_MS) /* of the time, for one of them */

struct sentinel {
	const struct server *server;
	char name[PLACE_TEXT];
	struct connection *connection;
	struct deadline deadline;
	struct failure *failure;
};

static enum io_result request(
	struct sentinel *sentinel, struct reply **reply, const char *const *words)
{
	return connection_call(
		sentinel->connection, reply, words, sentinel->deadline, sentinel->failure);
}

static bool wants_password(const struct sentinel *sentinel, const struct reply *reply)
{
	const char *error = reply_error(reply);

	return error && strncmp(error, "NOAUTH", 6) == 0 &&
	       (sentinel->server->user || sentinel->server->password);
}

/* The reply names the master; IO_AGAIN: this sentinel does not know the service. */
static enum io_result read_master(
	struct sentinel *sentinel, const struct reply *reply, struct place *master)
{
	const char *host = reply_text(reply_at(reply, 0));
	const char *port = reply_text(reply_at(reply, 1));
	char text[PLACE_TEXT];

	if (reply_is_nil(reply)) {
		failure_set(sentinel->failure, EXIT_CONFIG, "%s does not know the service '%s'",
			sentinel->name, sentinel->server->path);
		return IO_AGAIN;
	}
	if (reply_error(reply)) {
		error_reply_read(reply_error(reply), sentinel->name, sentinel->failure);
		return IO_FAILED;
	}
	if (host && *host && port && snprintf(text, sizeof(text), "%s:%s", host, port) > 0 &&
		place_read(master, text))
		return IO_OK;
	error_reply_nonsense(sentinel->failure, sentinel->name);
	return IO_FAILED;
}

static enum io_result log_in(struct sentinel *sentinel, struct reply **reply)
{
	const struct server *server = sentinel->server;
	char *known = server_password(server);
	const char *password = known ? known : "";
	enum io_result io = request(sentinel, reply,
		server->user ? WORDS("AUTH", server->user, password) : WORDS("AUTH", password));

	password_forget(known);
	return io;
}

static enum io_result ask(struct sentinel *sentinel, struct place *master)
{
	const struct server *server = sentinel->server;
	const char *const *master_of = WORDS("SENTINEL", "get-master-addr-by-name", server->path);
	struct reply *reply = NULL;
	enum io_result io = request(sentinel, &reply, master_of);

	if (io == IO_OK && wants_password(sentinel, reply)) {
		reply_free(reply);
		io = log_in(sentinel, &reply);
		if (io == IO_OK && !reply_error(reply)) {
			reply_free(reply);
			io = request(sentinel, &reply, master_of);
		}
	}
	if (io != IO_OK)
		return io;
	io = read_master(sentinel, reply, master);
	reply_free(reply);
	return io;
}

static enum io_result ask_one(const struct server *server, const struct endpoint *endpoint,
	struct place *master, struct deadline deadline, struct failure *failure)
{
	struct sentinel sentinel = {.server = server, .deadline = deadline, .failure = failure};
	struct lookup *lookup = NULL;
	char *at = stpcpy(sentinel.name, "the sentinel ");
	enum io_result io;

	place_write(at, (size_t)(sentinel.name + sizeof(sentinel.name) - at), endpoint->host,
		endpoint->port);
	io = connection_open(
		&sentinel.connection, server, endpoint, sentinel.name, &lookup, deadline, failure);
	resolve_abandon(lookup);
	if (io != IO_OK)
		return io;
	io = ask(&sentinel, master);
	connection_close(sentinel.connection);
	return io;
}

/* The result of a round in which no Sentinel named a master. */
struct round {
	size_t silent, ignorant;
	struct failure failure; /* of one that gave another answer than that it does not know */
};

static enum io_result go_round(const struct server *server, size_t *first, struct place *master,
	struct deadline deadline, nanos share, struct round *round)
{
	*round = (struct round){0};
	for (size_t i = 0; i < server->endpoint_count; i++) {
		size_t index = (*first + i) % server->endpoint_count;
		struct failure failure;
		enum io_result io = ask_one(server, &server->endpoints[index], master,
			deadline_within(deadline, share), &failure);

		if (io == IO_OK)
			*first = index;
		if (io == IO_OK || io == IO_CANCELLED)
			return io;
		if (io == IO_AGAIN)
			round->ignorant++;
		else
			round->failure = failure;
		if (io == IO_TIMEOUT)
			round->silent++;
	}
	return IO_CLOSED;
}

enum io_result sentinel_find(const struct server *server, size_t *first, struct place *master,
	struct deadline deadline, struct failure *failure)
{
	nanos share = FIRST_SHARE;
	struct round round;
	enum io_result io;

	do {
		io = go_round(server, first, master, deadline, share, &round);
		if (io != IO_CLOSED)
			return io;
		share *= 2;
	} while (round.silent > 0 && clock_now() < deadline.until);
	if (round.ignorant == server->endpoint_count) {
		failure_set(failure, EXIT_CONFIG, "no sentinel of %s knows the service '%s'",
			server->text, server->path);
		return IO_FAILED;
	}
	failure_set(failure, round.failure.code, "no sentinel names a master for '%s': %s",
		server->path, round.failure.text);
	if (round.silent > 0)
		return IO_TIMEOUT;
	return round.failure.code == EXIT_UNREACHABLE ? IO_CLOSED : IO_FAILED;
}
