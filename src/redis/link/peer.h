/*
 * One server of several that are spoken to at once: nothing here waits. What is sent goes behind
 * what is under way on the same connection, so the server does it in that order, whenever it does;
 * replies are taken as they come. A peer belongs to one thread at a time.
 */
#pragma once

#include "base/deadline.h"
#include "net/server.h"
#include "redis/link/link.h"

struct reply;

#define PEER_DUE 12 /* requests under way at once */

/* What a reply answers. */
enum peer_kind {
	PEER_ACQUIRE,
	PEER_CONFIRM,
	PEER_RENEW,
	PEER_RELEASE,
	PEER_LEAVE, /* a place in a queue */
	PEER_FORCE,
	PEER_LEASE,
	PEER_MESSAGE
};

struct peer {
	struct server server;      /* the one endpoint; its text is name; the rest is borrowed */
	char name[PLACE_TEXT];     /* HOST:PORT */
	struct link link;          /* server, connection, lookup and handshake are used */
	size_t address, addresses; /* which of the host's is tried, of how many */
	struct peer_due {
		enum peer_kind kind;
		unsigned tag;
	} due[PEER_DUE];
	size_t due_count;
	nanos due_since;        /* since when the first of these is waited for */
	bool readable;          /* something has come, as peers_wait found */
	struct failure failure; /* why there is no connection; code 0: nothing went wrong yet */
};

/* For the server number `which` of a list. link_close() with peer->link. */
void peer_open(struct peer *peer, const struct server *list, size_t which);

/* Begins to connect if there is no connection; goes on if the host was being looked up. */
void peer_connect(struct peer *peer);

/* Closes the connection, and reads what has come first (connection_drain). */
void peer_drop(struct peer *peer);

/* Closes it, and does not read what has come. */
void peer_forget(struct peer *peer);

/* The greeting was refused, so nothing more is asked over this connection. */
bool peer_is_refused(const struct peer *peer);

/* Not refused, and not down. */
bool peer_may_answer(const struct peer *peer);

/* For poll(2), if there is a connection. */
int peer_fd(const struct peer *peer);

/* Nothing that was sent can have come there. */
bool peer_is_untouched(const struct peer *peer);

/* The server is reached, and has the word: what is to be sent waits for TLS's handshake. */
bool peer_shakes_hands(const struct peer *peer);

/* Not connected, and not on the way to it. */
bool peer_is_down(const struct peer *peer);

/* Sends a call. What it is comes back with the reply. False: it was not sent; the peer is down
 * then, or has too much under way. */
bool peer_send(struct peer *peer, struct peer_due what, struct call *call, bool in_full);

/* A plain command, as of connection_append_words. */
bool peer_command(struct peer *peer, struct peer_due what, const char *const *words);

/* The next reply that has come by the last peers_wait, and what it answers; reply_free() with it.
 * False: there is none now, or the peer has just gone down. */
bool peer_take(struct peer *peer, struct peer_due *what, struct reply **reply);

/* Waits until one of them can get on, and sends and connects what can be. Servers that are down are
 * passed over. What has come is there to be taken (peer_take) even when time is up; patience as in
 * deadline_wait. */
enum deadline_end peers_wait(struct peer *peers, size_t count, struct deadline *deadline);
