/* Opens sockets. */
#ifndef DLOCK_REDIS_DIAL_H
#define DLOCK_REDIS_DIAL_H

#include <stddef.h>

#include "patience.h"
#include "redis/wire.h"

struct endpoint;
struct failure;
struct lookup;

/* A connected stream socket to an endpoint, non-blocking, close-on-exec, and no standard stream
 * even where those are closed. Tries all addresses of a host, one after the other. `peer` is the
 * server's name in messages; *lookup as in resolve(). */
enum wire dial(int *fd, const struct endpoint *endpoint, const char *peer, struct lookup **lookup,
	struct patience patience, struct failure *failure);

/* Begins to connect to the address number `which` of the host's *count, and does not wait: sending
 * over the socket says what becomes of it. WIRE_TIMEOUT: the host is still being looked up
 * (resolve_fd). */
enum wire dial_begin(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, size_t which, size_t *count, struct failure *failure);

/* Why there is no connection: what errno said, as a failure. */
enum wire dial_fail(int error, const char *peer, struct failure *failure);

#endif
