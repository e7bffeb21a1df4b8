/*
 * Talking to one server, one request at a time: connects and greets (AUTH, SELECT) if there is no
 * connection. It greets in the same write as the first request if that is safe. Which server that
 * is may change meanwhile: in a Cluster, behind Sentinels (route.h).
 */
#pragma once

#include "base/clock.h"
#include "base/deadline.h"
#include "base/failure.h"
#include "net/io_result.h"
#include "redis/link/handshake.h"
#include "redis/link/route.h"

struct call;
struct reply;

/* Stays where it is while it is open, or lent by link_lend: a connection borrows its server's name
 * from it. */
struct link {
	const struct server *server;
	const char *key;               /* for messages, if another type is in its place; borrowed */
	struct connection *connection; /* owned; NULL: none */
	struct lookup *lookup;         /* owned */
	struct route route;
	nanos named_at;             /* when Sentinels named the server */
	nanos sent_at;              /* before the last request left, in full or again in full */
	unsigned dials;             /* how often it has connected */
	struct handshake handshake; /* of the connection */
	bool waiting;               /* a reply to a request is still to come */
	bool owes;                  /* the reply to the WAIT behind it is */
	bool heard;                 /* something came over this connection */
	bool borrowed;              /* for one request only, after ASKING */
	bool moving;                /* the last request came while its slot moves */
	bool landed; /* the greeting was refused, but the request behind it was not */
};

/* The name of the server in messages. */
const char *link_server_name(const struct link *link);

/* Connects and greets, and waits for the server's consent. At once if that was done before. */
enum io_result link_open(struct link *link, struct deadline deadline, struct failure *failure);

/* Lets a moment pass before the next try. False: patience ended in it, or was *cancelled. */
bool link_pause(struct deadline deadline, bool *cancelled);

/* False: Sentinels name another server by now than the one that is spoken to, or that might be.
 * They are asked when that is more than a second ago, and given half a second: a master that was
 * replaced may go on as one for many seconds, and take what its successor never learns of. */
bool link_is_current(struct link *link, struct deadline deadline);

/* Closes the connection, if there is one; the next request opens another. */
void link_drop(struct link *link);

/* The same, and gives everything back. */
void link_close(struct link *link);

/* Sends a call, on a fresh connection if there is none or if a reply is still to come. */
enum io_result link_send(
	struct link *link, struct call *call, struct deadline deadline, struct failure *failure);

/* Writes a call, in full, behind one that is not answered, as far as the socket takes it at once.
 * False: not all of it, or there is no connection. The replies to both are the caller's to read. */
bool link_write_behind(struct link *link, struct call *call);

/* The reply to what was sent last, never an error; reply_free() with it. If the server does not
 * know the script, it is sent in full. */
enum io_result link_receive(struct link *link, struct call *call, struct reply **reply,
	struct deadline deadline, struct failure *failure);

/* After a call with call_wait, and its reply: how many replicas have all that this connection has
 * written. */
enum io_result link_confirm(
	struct link *link, int64_t *replicas, struct deadline deadline, struct failure *failure);

/* The end that an error reply asks for, of a request that was sent by other means: IO_CLOSED: a new
 * connection, which leads to where the reply says, if it does; else IO_FAILED. */
enum io_result link_handle_error(struct link *link, const char *text, struct failure *failure);

/* Both. A connection from before that turns out to be broken is replaced, once. */
enum io_result link_call(struct link *link, struct call *call, struct reply **reply,
	struct deadline deadline, struct failure *failure);

/* Several calls of one script in one write. begin makes each of them, of strings that live until
 * the next; read gets the reply to it, unless that is an error. */
struct link_calls {
	size_t count;
	void (*begin)(void *context, size_t which, struct call *call);
	void (*read)(void *context, size_t which, const struct reply *reply);
	void *context;
};

/* Sends them and reads their replies, in their order. One try, as link_call's: it is for the caller
 * to call again, each by itself, what read was not called for. */
enum io_result link_call_several(struct link *link, const struct link_calls *calls,
	struct deadline deadline, struct failure *failure);

/* `to` gets the connection of `from`, which must live as long: unless `to` has one already, or
 * something is under way on it, or it leads to the node of another slot. */
void link_lend(struct link *to, struct link *from);
