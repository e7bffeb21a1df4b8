/* The masters of a Redis Cluster. */
#pragma once

#include <stddef.h>

#include "base/deadline.h"
#include "net/io_result.h"

struct failure;
struct place;
struct link;

/* Asks the server of an open session which masters its Cluster has, each once. None where it
 * belongs to no Cluster. IO_FAILED also where it does, and does not tell this user. free()
 * *places, even where there are none. */
enum io_result cluster_masters_find(struct link *link, const char *prefix, struct place **places,
	size_t *count, struct deadline deadline, struct failure *failure);
