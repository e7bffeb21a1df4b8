/* Which locks a server has. */
#ifndef DLOCK_REDIS_SINGLE_LIST_H
#define DLOCK_REDIS_SINGLE_LIST_H

#include <stdbool.h>

#include "lock/lock_list.h"

struct server;

bool single_list(const struct server *server, const char *prefix, char *const *patterns,
	size_t pattern_count, bool idle_too,
	void (*show)(const struct lock_view *view, void *context), void *context,
	struct deadline deadline, struct failure *failure);
void *single_list_open(const struct server *server, const char *prefix, char *const *patterns,
	size_t pattern_count, struct failure *failure);
bool single_list_again(void *state, void (*show)(const struct lock_view *view, void *context),
	void *context, struct deadline deadline, struct failure *failure);
void single_list_close(void *state);

#endif
