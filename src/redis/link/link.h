/*
 * Talking to one server, one request at a time: connects and greets (AUTH, SELECT) if there is no
 * connection. It greets in the same write as the first request if that is safe. Which server that
 * is may change meanwhile: in a Cluster, behind Sentinels.
 */
#pragma once

#include "base/clock.h"
#include "base/deadline.h"
#include "base/failure.h"
#include "net/io_result.h"
#include "net/server.h"

struct call;
struct connection;
struct lookup;
struct reply;

#define REDIRECTS_MOST 5 /* in a row */

/* Which server that is: the one that the URL names; in a Cluster the node that a redirect names
 * (MOVED, ASK); behind Sentinels the master that they name. Begins as zeros. */
struct route {
	struct place home;     /* where a redirect has led */
	struct place once;     /* where the next connection leads, for one request: ASK */
	struct place last;     /* where the last one led; host "": to the URL's only server */
	char text[PLACE_TEXT]; /* its name, unless that is the URL */
	size_t first;          /* which of the URL's servers is tried first */
	int redirects;         /* since a request was answered */
};

/* Stays where it is while it is open, or lent by link_lend: a connection borrows its server's name
 * from it. */
struct link {
	const struct server *server;
	const char *key;               /* for messages, if another type is in its place; borrowed */
	struct connection *connection; /* owned; NULL: none */
	struct lookup *lookup;         /* owned */
	struct route route;
	nanos named_at;         /* when Sentinels named the server */
	nanos sent_at;          /* before the last request left, in full or again in full */
	unsigned dials;         /* how often it has connected */
	int due;                /* replies to the greeting (AUTH, SELECT, ROLE), or to ASKING,
				 * that are still to come before the one to the request */
	struct failure refusal; /* the first of them that was no consent; code 0: none */
	bool waiting;           /* a reply to a request is still to come */
	bool owes;              /* the reply to the WAIT behind it is */
	bool heard;             /* something came over this connection */
	bool borrowed;          /* for one request only, after ASKING */
	bool moving;            /* the last request came while its slot moves */
};

/* The name of the server spoken to last, in messages. */
const char *link_server_name(const struct link *link);

/* Connects and greets, and waits for the server's consent. At once if that was done before. */
enum io_result link_open(struct link *link, struct deadline deadline, struct failure *failure);

/* Lets a moment pass before the next try. False: patience ended in it, or *io is IO_CANCELLED. */
bool link_pause(struct deadline deadline, enum io_result *io);

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

/* After a call with replicas, and its reply: how many replicas have all that this connection has
 * written. */
enum io_result link_confirm(
	struct link *link, int64_t *replicas, struct deadline deadline, struct failure *failure);

/* The end that an error reply asks for, of a request that was sent by other means: IO_CLOSED: a new
 * connection, which leads to where the reply says, if it does; else IO_FAILED. */
enum io_result link_handle_error(struct link *link, const char *text, struct failure *failure);

/* Both. A connection from before that turns out to be broken is replaced, once. */
enum io_result link_call(struct link *link, struct call *call, struct reply **reply,
	struct deadline deadline, struct failure *failure);

/* Sends a command that is no script, and reads its reply, while nothing else is under way. An error
 * that the server replies is IO_FAILED with failure. reply_free() after IO_OK. One thread at a time.
 */
enum io_result link_ask(struct link *link, struct reply **reply, const char *const *words,
	struct deadline deadline, struct failure *failure);

/* `to` gets the connection of `from`, which must live as long: unless `to` has one already, or
 * something is under way on it, or it leads to the node of another slot. */
void link_lend(struct link *to, struct link *from);

/* --- route.c, for this folder --- */

/* Connects. Behind Sentinels IO_AGAIN: they were reached, the master that they name was not. */
enum io_result route_connect(struct link *link, struct deadline deadline, struct failure *failure);

/* Heeds the error reply "MOVED SLOT HOST:PORT", or ASK, of the server spoken to last: the next
 * connection leads there. IO_AGAIN with failure: that was one too many in a row; IO_FAILED: it
 * makes no sense. */
enum io_result route_redirect(struct link *link, const char *text, struct failure *failure);

/* A place that the server spoken to last has named: if it named no host, its own is meant. False:
 * there is no such place. Pure. */
bool route_place(const struct link *link, const char *host, int64_t port, struct place *place);

/* sentinel.c: which server is the master of a service now. Asks one after the other, from *first
 * on, which becomes the one that answered. A Sentinel that is silent costs a quarter of a second;
 * when all were, each gets twice as long, until patience ends. The URL's user and password are for
 * the master; a sentinel gets them when it asks for some. IO_FAILED with EXIT_CONFIG: all answered,
 * and none knows the service. IO_CLOSED: none can be reached that does. */
enum io_result sentinel_find(const struct server *server, size_t *first, struct place *master,
	struct deadline deadline, struct failure *failure);

/* cluster_masters.c: asks the server of an open session which masters its Cluster has, each once.
 * There are none if it belongs to no Cluster. IO_FAILED also if it does, but does not tell this
 * user. free() *places in any case. */
enum io_result cluster_masters_find(struct link *link, const char *prefix, struct place **places,
	size_t *count, struct deadline deadline, struct failure *failure);
