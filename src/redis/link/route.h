/*
 * Which server a session talks to: the one that its URL names; in a Cluster the node that a
 * redirect names (MOVED, ASK); behind Sentinels the master that they name. Each session has a route
 * of its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/deadline.h"
#include "net/io_result.h"
#include "net/place.h"

struct connection;
struct failure;
struct link;
struct lookup;
struct server;

#define REDIRECTS_MOST 5 /* in a row */

/* Begins as zeros. */
struct route {
	struct place home;     /* where a redirect has led */
	struct place once;     /* where the next connection leads, for one request: ASK */
	struct place last;     /* where the last one led; host "": to the URL's only server */
	char text[PLACE_TEXT]; /* its name, unless that is the URL */
	size_t first;          /* which of the URL's servers is tried first */
	int redirects;         /* since a request was answered */
};

/* Connects. *lookup as in resolve_host(), of this route's hosts. Behind Sentinels IO_AGAIN: they
 * were reached, the master that they name was not. */
enum io_result route_connect(struct route *route, const struct server *server,
	struct connection **connection, struct lookup **lookup, struct deadline deadline,
	struct failure *failure);

/* Heeds the error reply "MOVED SLOT HOST:PORT", or ASK, of the server spoken to last: the next
 * connection leads there. *once: for one request, which ASKING must precede. IO_AGAIN with
 * failure: that was one too many in a row; IO_FAILED: it makes no sense. */
enum io_result route_redirect(struct route *route, const struct server *server, const char *text,
	bool *once, struct failure *failure);

/* Whether that is the server spoken to last. */
bool route_leads_to(const struct route *route, const struct place *place);

/* The name of the server spoken to last. */
const char *route_name(const struct route *route, const struct server *server);

/* A place that the server spoken to last has named: if it named no host, its own is meant. False:
 * there is no such place. Pure. */
bool route_place(const struct route *route, const struct server *server, const char *host,
	int64_t port, struct place *place);

/* sentinel.c: which server is the master of a service now. Asks one after the other, from *first
 * on, which becomes the one that answered. A Sentinel that is silent costs a quarter of a second;
 * when all were, each gets twice as long, until patience ends. The URL's user and password are for
 * the master; a sentinel gets them when it asks for some. IO_FAILED with EXIT_CONFIG: all answered,
 * and none knows the service. IO_CLOSED: none can be reached that does. */
enum io_result sentinel_find(const struct server *server, size_t *first, struct place *master,
	struct deadline deadline, struct failure *failure);

/* cluster_masters.c: asks the server of an open session which masters its Cluster has, each once.
 * There are none if it belongs to no Cluster. IO_FAILED also if it does, but does not tell this
 * user. free() *places, even if there are none. */
enum io_result cluster_masters_find(struct link *link, const char *prefix, struct place **places,
	size_t *count, struct deadline deadline, struct failure *failure);
