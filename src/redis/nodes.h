/* The masters of a Redis Cluster. */
#ifndef DLOCK_REDIS_NODES_H
#define DLOCK_REDIS_NODES_H

#include <stddef.h>

#include "patience.h"
#include "redis/wire.h"

struct failure;
struct place;
struct session;

/* Asks the server of an open session which masters its Cluster has, each once. None where it
 * belongs to no Cluster. WIRE_FAILED also where it does, and does not tell this user. free()
 * *places, even where there are none. */
enum wire nodes_find(struct session *session, const char *prefix, struct place **places,
	size_t *count, struct patience patience, struct failure *failure);

#endif
