/*
 * The commands before the first request on a connection (AUTH, SELECT, ROLE, ASKING), and the
 * replies to it. A handshake belongs to one connection, and to that one's thread.
 */
#pragma once

#include "base/failure.h"

struct connection;
struct reply;
struct server;

struct handshake {
	int due;                /* replies that are still to come */
	struct failure refusal; /* the first of them that was no consent; code 0: none */
};

/* Forgets what an earlier connection was told, then puts AUTH, SELECT and behind Sentinels ROLE
 * into the buffer, as far as they are needed. False: out of memory. */
bool handshake_begin(
	struct handshake *handshake, struct connection *connection, const struct server *server);

/* Adds ASKING, which goes before a request that ASK has sent to another node. False: out of memory.
 */
bool handshake_append_asking(struct handshake *handshake, struct connection *connection);

/* Takes a reply that the handshake was waiting for; it stays the caller's. `name` is the server's
 * in messages. */
void handshake_take(struct handshake *handshake, const struct server *server, const char *name,
	const struct reply *reply);
