/* What a server says of itself, and what to think of it. */
#ifndef DLOCK_REDIS_CHECK_SETTINGS_H
#define DLOCK_REDIS_CHECK_SETTINGS_H

#include <stdbool.h>

struct probe;

/* Each tells what it finds. False: the server went away, which was told. */
bool settings_check(struct probe *probe);

#endif
