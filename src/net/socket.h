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

/* Begins to connect to the address number `which` of the host's *count, and does not wait: sending
 * over the socket says what becomes of it. IO_TIMEOUT: the host is still being looked up
 * (resolve_fd). */
enum io_result socket_begin(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, size_t which, size_t *count, struct failure *failure);

/* Another process goes on with the socket: /dev/null takes its place, so that what a library still
 * has to say goes nowhere. False: it is closed. */
bool socket_silence(int fd);

/* What is written to the socket goes nowhere from now on, until socket_put_back with the same
 * `aside`. False: nothing has changed. */
bool socket_set_aside(int fd, int aside[2]);
void socket_put_back(int fd, const int aside[2]);

/* Why there is no connection: what errno said, as a failure. */
enum io_result socket_fail(int error, const char *peer, struct failure *failure);
