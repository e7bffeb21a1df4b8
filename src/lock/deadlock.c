#include "lock/deadlock.h"

#include <stdio.h>
#include <string.h>

#define NAME_MOST "60" /* characters */

void deadlock_path_begin(struct deadlock_path *path, const char *name)
{
	snprintf(path->text, sizeof(path->text), "%." NAME_MOST "s", name);
}

void deadlock_path_add(struct deadlock_path *path, const char *token, const char *name)
{
	size_t used = strlen(path->text);
	size_t owner = strcspn(token, "\n");

	while (owner > 0 && token[owner - 1] != ':')
		owner--;
	snprintf(path->text + used, sizeof(path->text) - used,
		" is held by %.*s, which waits for %." NAME_MOST "s, which",
		(int)(owner > 0 ? owner - 1 : strcspn(token, "\n")), token, name);
}

bool deadlock_by_circle(const char *path, struct failure *failure)
{
	return failure_set(failure, EXIT_DEADLOCK,
		"waiting would deadlock: %s is held by a dlock around this one; take these locks "
		"in one order everywhere",
		path);
}
