/* The masters of a Redis Cluster. */
#pragma once

#include <stddef.h>

#include "base/deadline.h"
#include "net/io_result.h"

struct failure;
struct place;
struct link;

/* Asks the server of an open session which masters its Cluster has, each once. None if it belongs
 * to no Cluster. IO_FAILED also if it does, but does not tell this user. free() *places, even if
 * there are none. */
enum io_result cluster_masters_find(struct link *link, const char *prefix, struct place **places,
	size_t *count, struct deadline deadline, struct failure *failure);
