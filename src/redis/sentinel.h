/* Asking Redis Sentinels which server is the master of a service now. */
#ifndef DLOCK_REDIS_SENTINEL_H
#define DLOCK_REDIS_SENTINEL_H

#include <stddef.h>

#include "patience.h"
#include "redis/wire.h"

struct failure;
struct place;
struct server;

/*
 * Asks one after the other, from *first on, which becomes the one that answered. One that is silent
 * costs a quarter of a second; when all were, each gets twice as long, until patience ends. The
 * URL's user and password are for the master; a sentinel gets them when it asks for some.
 * WIRE_FAILED with EXIT_CONFIG: all answered, and none knows the service. WIRE_CLOSED: none can be
 * reached that does.
 */
enum wire sentinel_find(const struct server *server, size_t *first, struct place *master,
	struct patience patience, struct failure *failure);

#endif
