/* Opens sockets. */
#pragma once

#include <stddef.h>

#include "base/deadline.h"
#include "net/io_result.h"

struct endpoint;
struct failure;
struct lookup;

/* A connected stream socket to an endpoint, non-blocking, close-on-exec, and no standard stream
 * even if those are closed. Tries all addresses of a host, one after the other. `peer` is the
 * server's name in messages; *lookup as in resolve_host(). */
enum io_result socket_open(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, struct deadline deadline, struct failure *failure);

/* Why there is no connection: what errno said, as a failure. */
enum io_result socket_fail(int error, const char *peer, struct failure *failure);
