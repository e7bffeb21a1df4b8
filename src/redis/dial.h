/* Opens sockets. */
#ifndef DLOCK_REDIS_DIAL_H
#define DLOCK_REDIS_DIAL_H

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

#endif
