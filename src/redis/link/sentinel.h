/* Asking Redis Sentinels which server is the master of a service now. */
#pragma once

#include <stddef.h>

#include "base/deadline.h"
#include "net/io_result.h"

struct failure;
struct place;
struct server;

/*
 * Asks one after the other, from *first on, which becomes the one that answered. One that is silent
 * costs a quarter of a second; when all were, each gets twice as long, until patience ends. The
 * URL's user and password are for the master; a sentinel gets them when it asks for some.
 * IO_FAILED with EXIT_CONFIG: all answered, and none knows the service. IO_CLOSED: none can be
 * reached that does.
 */
enum io_result sentinel_find(const struct server *server, size_t *first, struct place *master,
	struct deadline deadline, struct failure *failure);
