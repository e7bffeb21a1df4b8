/*
 * Talking to one server, one request at a time: connects and greets (AUTH, SELECT) where there is
 * no connection, in the same write as the first request where that is safe. Which server that is
 * may change meanwhile: in a Cluster, behind Sentinels (route.h).
 */
#ifndef DLOCK_REDIS_SESSION_H
#define DLOCK_REDIS_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "failure.h"
#include "patience.h"
#include "redis/route.h"
#include "redis/wire.h"

struct call;
struct connection;
struct lookup;
struct reply;
struct server;

/* Stays where it is while it is open: a connection borrows its server's name from it. */
struct session {
	const struct server *server;
	const char *key; /* what to name in messages when another type is in its place; borrowed */
	struct connection *connection; /* owned; NULL: none */
	struct lookup *lookup;         /* owned */
	struct route route;
	nanos named_at;         /* when Sentinels named the server */
	nanos sent_at;          /* before the last request left, in full or again in full */
	unsigned dials;         /* how often it has connected */
	int greetings;          /* replies of AUTH and SELECT that are still to come */
	bool waiting;           /* a reply to a request is still to come */
	bool owes;              /* the reply to the WAIT behind it is */
	bool heard;             /* something came over this connection */
	bool borrowed;          /* it is for one request only, after ASKING */
	bool moving;            /* the last request came while its slot moves */
	bool landed;            /* the greeting was refused, but the request behind it was not */
	struct failure refusal; /* of the greeting; code 0: none */
};

/* The name of the server in messages. */
const char *session_peer(const struct session *session);

/* Connects where that takes no waiting, over a unix socket: the server accepts while the caller
 * prepares his request. What goes wrong is left to the request to find. */
void session_begin(struct session *session);

/* Connects and greets, and waits for the server's consent. At once where that was done before. */
enum wire session_open(struct session *session, struct patience patience, struct failure *failure);

/* Puts AUTH and SELECT, where they are wanted, into the buffer. False: out of memory. */
bool session_greet(struct session *session);

/* False: Sentinels name another server by now than the one that is spoken to, or that might be.
 * They are asked when that is more than a second ago, and given half a second: a master that was
 * replaced may go on as one for many seconds, and take what its successor never learns of. */
bool session_is_current(struct session *session, struct patience patience);

/* Closes the connection, if there is one; the next request opens another. */
void session_drop(struct session *session);

/* The same, and gives everything back. */
void session_close(struct session *session);

/* Sends a call, on a fresh connection where there is none or where a reply is still to come. */
enum wire session_send(struct session *session, struct call *call, struct patience patience,
	struct failure *failure);

/* The reply to what was sent last, never an error; reply_free() with it. Where the server does not
 * know the script it is sent in full. */
enum wire session_receive(struct session *session, struct call *call, struct reply **reply,
	struct patience patience, struct failure *failure);

/* After a call with call_wait, and its reply: how many replicas have all that this connection has
 * written. */
enum wire session_confirm(struct session *session, int64_t *replicas, struct patience patience,
	struct failure *failure);

/* What an error reply to something that was sent by other means asks for: WIRE_CLOSED: a new
 * connection, which leads to where the reply says, if it does; else WIRE_FAILED. */
enum wire session_heed(struct session *session, const char *text, struct failure *failure);

/* Both. A connection from before that turns out to be broken is replaced, once. */
enum wire session_call(struct session *session, struct call *call, struct reply **reply,
	struct patience patience, struct failure *failure);

#endif
