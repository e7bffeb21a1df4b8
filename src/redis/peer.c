#include "redis/peer.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "redis/connection.h"
#include "redis/fault.h"
#include "redis/greeting.h"
#include "redis/resolve.h"
#include "redis/script.h"

void peer_open(struct peer *peer, const struct server *list, size_t which)
{
	const struct endpoint *endpoint = &list->endpoints[which];
	bool bare = strchr(endpoint->host, ':') == NULL;

	snprintf(peer->name, sizeof(peer->name), bare ? "%s:%d" : "[%s]:%d", endpoint->host,
		endpoint->port);
	peer->server = *list;
	peer->server.scheme = SERVER_REDIS;
	peer->server.endpoints = &list->endpoints[which];
	peer->server.endpoint_count = 1;
	peer->server.text = peer->name;
	peer->session.server = &peer->server;
}

/* --- Connecting ----------------------------------------------------------------------------- */

void peer_forget(struct peer *peer)
{
	session_drop(&peer->session);
	peer->due_count = 0;
}

void peer_drop(struct peer *peer)
{
	if (peer->session.connection && peer->due_count > 0)
		connection_drain(peer->session.connection);
	peer_forget(peer);
}

void peer_close(struct peer *peer)
{
	session_close(&peer->session);
}

/* One address of several may be wrong, or not served (::1 beside 127.0.0.1). */
static void begin(struct peer *peer)
{
	struct session *session = &peer->session;
	enum wire wire;

	do {
		wire = connection_begin(&session->connection, &peer->server, peer->name,
			&session->lookup, peer->address, &peer->addresses, &peer->failure);
	} while (wire == WIRE_CLOSED && ++peer->address < peer->addresses);
	if (wire != WIRE_OK) {
		session->connection = NULL;
		return;
	}
	session->greetings = 0;
	session->refusal.code = EXIT_DONE;
	greeting_append(session);
	peer_flush(peer);
}

void peer_connect(struct peer *peer)
{
	if (peer->session.connection)
		return;
	peer->address = peer->addresses = 0;
	peer->due_count = 0;
	begin(peer);
}

static void fail(struct peer *peer)
{
	bool untouched = connection_is_untouched(peer->session.connection);

	peer_forget(peer);
	if (untouched && ++peer->address < peer->addresses)
		begin(peer);
}

bool peer_is_down(const struct peer *peer)
{
	return !peer->session.connection && resolve_fd(peer->session.lookup) < 0;
}

int peer_fd(const struct peer *peer)
{
	return connection_fd(peer->session.connection);
}

bool peer_is_untouched(const struct peer *peer)
{
	return !peer->session.connection || connection_is_untouched(peer->session.connection);
}

/* Behind a SELECT that fails, the lock would be taken in database 0. */
bool peer_is_refused(const struct peer *peer)
{
	return peer->server.db != 0 && peer->session.connection &&
	       peer->session.refusal.code != EXIT_DONE;
}

bool peer_shakes_hands(const struct peer *peer)
{
	const struct connection *connection = peer->session.connection;

	return connection && connection_is_untouched(connection) &&
	       connection_events(connection) == POLLIN;
}

bool peer_takes_requests(const struct peer *peer)
{
	const struct session *session = &peer->session;

	if (!session->connection || peer->due_count == PEER_DUE || peer_is_refused(peer))
		return false;
	return peer->server.db == 0 || session->greetings == 0;
}

/* --- Out ------------------------------------------------------------------------------------ */

void peer_flush(struct peer *peer)
{
	struct patience none = {0, -1};
	enum wire wire = connection_flush(peer->session.connection, none, &peer->failure);

	if (wire != WIRE_OK && wire != WIRE_TIMEOUT)
		fail(peer);
}

static bool sent(struct peer *peer, struct peer_due what, bool appended)
{
	if (!appended) {
		failure_set(&peer->failure, EXIT_SYSTEM, "out of memory");
		peer_forget(peer);
		return false;
	}
	if (peer->due_count == 0) {
		peer->due_since = clock_now();
		peer->readable = false;
	}
	peer->due[peer->due_count++] = what;
	peer_flush(peer);
	return peer->session.connection != NULL && peer->due_count > 0;
}

bool peer_send(struct peer *peer, struct peer_due what, struct call *call, bool in_full)
{
	if (!peer_takes_requests(peer))
		return false;
	return sent(peer, what, call_append(call, peer->session.connection, in_full));
}

bool peer_command(struct peer *peer, struct peer_due what, const char *const *words, size_t count)
{
	size_t lengths[3];

	if (!peer_takes_requests(peer))
		return false;
	for (size_t i = 0; i < count; i++)
		lengths[i] = strlen(words[i]);
	return sent(peer, what, connection_append(peer->session.connection, count, words, lengths));
}

/* --- In ------------------------------------------------------------------------------------- */

static void heed_greeting(struct peer *peer, const struct reply *reply)
{
	struct session *session = &peer->session;

	session->greetings--;
	if (reply_error(reply) && session->refusal.code == EXIT_DONE)
		fault_read(reply_error(reply), peer->name, &session->refusal);
}

bool peer_take(struct peer *peer, struct peer_due *what, struct reply **reply)
{
	struct session *session = &peer->session;

	while (session->connection && peer->readable &&
		(session->greetings > 0 || peer->due_count > 0)) {
		enum wire wire = connection_take(session->connection, reply, &peer->failure);

		if (wire == WIRE_AGAIN) {
			peer->readable = false;
			return false;
		}
		if (wire != WIRE_OK) {
			if (session->refusal.code != EXIT_DONE)
				peer->failure = session->refusal;
			peer_forget(peer);
			return false;
		}
		if (session->greetings == 0) {
			*what = peer->due[0];
			peer->due_count--;
			peer->due_since = clock_now();
			memmove(peer->due, peer->due + 1, peer->due_count * sizeof(peer->due[0]));
			return true;
		}
		heed_greeting(peer, *reply);
		reply_free(*reply);
	}
	return false;
}

/* --- All of them ---------------------------------------------------------------------------- */

/* One of which nothing is awaited would be ready all the time once it has closed, or has said more
 * than it was asked. */
static struct pollfd interest(const struct peer *peer)
{
	const struct connection *connection = peer->session.connection;
	bool awaited = peer->due_count > 0 || peer->session.greetings > 0;
	short events = POLLOUT;

	if (!connection)
		return (struct pollfd){.fd = resolve_fd(peer->session.lookup), .events = POLLIN};
	if (!awaited && !connection_is_pending(connection))
		return (struct pollfd){.fd = -1};
	if (awaited || connection_is_untouched(connection))
		events = connection_events(connection);
	return (struct pollfd){.fd = connection_fd(connection), .events = events};
}

/* A server that takes no more bytes may all the same say something, or close. */
static void heed_events(struct peer *peer, short events)
{
	bool pending;

	if (!peer->session.connection) {
		begin(peer);
		return;
	}
	pending = connection_is_pending(peer->session.connection);
	if (pending)
		peer_flush(peer);
	if (!peer_is_untouched(peer) && (!pending || (events & ~POLLOUT)))
		peer->readable = true;
}

enum patience_end peers_wait(struct peer *peers, size_t count, struct patience patience)
{
	struct pollfd fds[PEERS_MOST + 1];
	int ready;

	for (size_t i = 0; i < count; i++)
		fds[i] = interest(&peers[i]);
	fds[count] = (struct pollfd){.fd = patience.cancel_fd, .events = POLLIN};
	ready = poll(fds, (nfds_t)count + 1, clock_poll_ms(patience.until));
	for (size_t i = 0; ready > 0 && i < count; i++)
		if (fds[i].revents != 0)
			heed_events(&peers[i], fds[i].revents);
	if (ready > 0 && fds[count].revents)
		return PATIENCE_CANCELLED;
	return clock_now() >= patience.until ? PATIENCE_OVER : PATIENCE_READY;
}
