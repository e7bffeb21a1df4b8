/*
 * Which server a session talks to: the one that its URL names; in a Cluster the node that a
 * redirect names (MOVED, ASK); behind Sentinels the master that they name. One of a session's own.
 */
#ifndef DLOCK_REDIS_ROUTE_H
#define DLOCK_REDIS_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "patience.h"
#include "redis/wire.h"

struct connection;
struct failure;
struct lookup;
struct server;

#define ROUTE_HOST     256
#define ROUTE_TEXT     (ROUTE_HOST + 32)
#define REDIRECTS_MOST 5 /* in a row */

struct place {
	char host[ROUTE_HOST]; /* a name or an address without brackets; "": none */
	int port;
};

/* Begins as zeros. */
struct route {
	struct place home;     /* where a redirect has led */
	struct place once;     /* where the next connection leads, for one request: ASK */
	struct place last;     /* where the last one led; host "": to the URL's only server */
	char text[ROUTE_TEXT]; /* its name, unless that is the URL */
	size_t first;          /* which of the URL's servers is tried first */
	int redirects;         /* since a request was answered */
};

/* Connects. *lookup as in resolve(), of this route's hosts. Behind Sentinels WIRE_AGAIN: they were
 * reached, the master that they name was not. */
enum wire route_connect(struct route *route, const struct server *server,
	struct connection **connection, struct lookup **lookup, struct patience patience,
	struct failure *failure);

/* Heeds the error reply "MOVED SLOT HOST:PORT", or ASK, of the server spoken to last: the next
 * connection leads there. *once: for one request, which ASKING must precede. WIRE_AGAIN with
 * failure: that was one too many in a row; WIRE_FAILED: it makes no sense. */
enum wire route_redirect(struct route *route, const struct server *server, const char *text,
	bool *once, struct failure *failure);

/* The server spoken to last never said anything: another is to be tried before it. */
void route_doubt(struct route *route);

/* Whether that is the server spoken to last. */
bool route_leads_to(const struct route *route, const struct place *place);

/* The name of the server spoken to last. */
const char *route_name(const struct route *route, const struct server *server);

/* Reads HOST:PORT, an address of IPv6 without brackets too; the host may be empty. Pure. */
bool place_read(struct place *place, const char *text);

/* A place that the server spoken to last has named: where it named no host, its own is meant.
 * False: there is no such place. Pure. */
bool route_place(const struct route *route, const struct server *server, const char *host,
	int64_t port, struct place *place);

#endif
