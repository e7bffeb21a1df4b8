#include "redis/link/peer.h"

#include <poll.h>
#include <string.h>

#include "net/resolve.h"
#include "redis/link/connection.h"
#include "redis/redis_url.h"
#include "redis/script/script.h"

void peer_open(struct peer *peer, const struct server *list, size_t which)
{
	const struct endpoint *endpoint = &list->endpoints[which];

	place_write(peer->name, sizeof(peer->name), endpoint->host, endpoint->port);
	peer->server = *list;
	peer->server.scheme = redis_scheme_of_one(list->tls);
	peer->server.endpoints = &list->endpoints[which];
	peer->server.endpoint_count = 1;
	peer->server.text = peer->name;
	peer->link.server = &peer->server;
}

void peer_forget(struct peer *peer)
{
	link_drop(&peer->link);
	peer->due_count = 0;
}

void peer_drop(struct peer *peer)
{
	if (peer->link.connection && peer->due_count > 0)
		connection_drain(peer->link.connection);
	peer_forget(peer);
}

/* Sends what was put by, until the socket is full. */
static void flush(struct peer *peer);

/* One address of several may be wrong, or not served (::1 beside 127.0.0.1). */
static void begin(struct peer *peer)
{
	struct link *link = &peer->link;
	enum io_result io;

	do {
		io = connection_begin(&link->connection, &peer->server, peer->name, &link->lookup,
			peer->address, &peer->addresses, &peer->failure);
	} while (io == IO_CLOSED && ++peer->address < peer->addresses);
	if (io != IO_OK) {
		link->connection = NULL;
		return;
	}
	handshake_begin(&link->handshake, link->connection, &peer->server);
	flush(peer);
}

void peer_connect(struct peer *peer)
{
	if (peer->link.connection)
		return;
	peer->address = peer->addresses = 0;
	peer->due_count = 0;
	begin(peer);
}

static void fail(struct peer *peer)
{
	bool untouched = connection_is_untouched(peer->link.connection);

	peer_forget(peer);
	if (untouched && ++peer->address < peer->addresses)
		begin(peer);
}

bool peer_is_down(const struct peer *peer)
{
	return !peer->link.connection && resolve_fd(peer->link.lookup) < 0;
}

int peer_fd(const struct peer *peer)
{
	return connection_fd(peer->link.connection);
}

bool peer_is_untouched(const struct peer *peer)
{
	return !peer->link.connection || connection_is_untouched(peer->link.connection);
}

bool peer_is_refused(const struct peer *peer)
{
	return peer->server.db != 0 && peer->link.connection &&
	       peer->link.handshake.refusal.code != EXIT_DONE;
}

bool peer_may_answer(const struct peer *peer)
{
	return !peer_is_down(peer) && !peer_is_refused(peer);
}

bool peer_shakes_hands(const struct peer *peer)
{
	const struct connection *connection = peer->link.connection;

	return connection && connection_is_untouched(connection) &&
	       connection_events(connection) == POLLIN;
}

/* A connection is there, or under way, that takes requests: with a database, once it is selected.
 */
static bool takes_requests(const struct peer *peer)
{
	const struct link *link = &peer->link;

	if (!link->connection || peer->due_count == PEER_DUE || peer_is_refused(peer))
		return false;
	return peer->server.db == 0 || link->handshake.due == 0;
}

static void flush(struct peer *peer)
{
	struct deadline none = {.cancel_fd = -1};
	enum io_result io = connection_flush(peer->link.connection, none, &peer->failure);

	if (io != IO_OK && io != IO_TIMEOUT)
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
	flush(peer);
	return peer->link.connection != NULL && peer->due_count > 0;
}

bool peer_send(struct peer *peer, struct peer_due what, struct call *call, bool in_full)
{
	if (!takes_requests(peer))
		return false;
	return sent(peer, what, call_append(call, peer->link.connection, in_full));
}

bool peer_command(struct peer *peer, struct peer_due what, const char *const *words)
{
	if (!takes_requests(peer))
		return false;
	return sent(peer, what, connection_append_words(peer->link.connection, words));
}

bool peer_take(struct peer *peer, struct peer_due *what, struct reply **reply)
{
	struct link *link = &peer->link;

	while (link->connection && peer->readable &&
		(link->handshake.due > 0 || peer->due_count > 0)) {
		enum io_result io = connection_take(link->connection, reply, &peer->failure);

		if (io == IO_AGAIN) {
			peer->readable = false;
			return false;
		}
		if (io != IO_OK) {
			if (link->handshake.refusal.code != EXIT_DONE)
				peer->failure = link->handshake.refusal;
			peer_forget(peer);
			return false;
		}
		if (link->handshake.due == 0) {
			*what = peer->due[0];
			peer->due_count--;
			peer->due_since = clock_now();
			memmove(peer->due, peer->due + 1, peer->due_count * sizeof(peer->due[0]));
			return true;
		}
		handshake_take(&link->handshake, &peer->server, peer->name, *reply);
		reply_free(*reply);
	}
	return false;
}

/* A connection of which nothing is awaited would be ready all the time once it has closed, or has
 * said more than it was asked. */
static struct pollfd interest(const struct peer *peer)
{
	const struct connection *connection = peer->link.connection;
	bool awaited = peer->due_count > 0 || peer->link.handshake.due > 0;
	short events = POLLOUT;

	if (!connection)
		return (struct pollfd){.fd = resolve_fd(peer->link.lookup), .events = POLLIN};
	if (!awaited && !connection_is_pending(connection))
		return (struct pollfd){.fd = -1};
	if (awaited || connection_is_untouched(connection))
		events = connection_events(connection);
	return (struct pollfd){.fd = connection_fd(connection), .events = events};
}

/* A server that takes no more bytes may all the same say something, or close. */
static void handle_events(struct peer *peer, short events)
{
	bool pending;

	if (!peer->link.connection) {
		begin(peer);
		return;
	}
	pending = connection_is_pending(peer->link.connection);
	if (pending)
		flush(peer);
	if (!peer_is_untouched(peer) && (!pending || (events & ~POLLOUT)))
		peer->readable = true;
}

enum deadline_end peers_wait(struct peer *peers, size_t count, struct deadline *deadline)
{
	struct pollfd fds[QUORUM_MOST + 1];
	bool over = deadline_is_over(deadline);
	int ready;

	for (size_t i = 0; i < count; i++)
		fds[i] = interest(&peers[i]);
	fds[count] = (struct pollfd){.fd = deadline->cancel_fd, .events = POLLIN};
	ready = poll(fds, (nfds_t)count + 1, over ? 0 : clock_poll_ms(deadline->until));
	for (size_t i = 0; ready > 0 && i < count; i++)
		if (fds[i].revents != 0)
			handle_events(&peers[i], fds[i].revents);
	if (ready > 0 && fds[count].revents)
		return DEADLINE_CANCELLED;
	return deadline_is_over(deadline) ? DEADLINE_OVER : DEADLINE_READY;
}
