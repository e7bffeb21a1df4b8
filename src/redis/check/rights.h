/* Whether this user may run the commands that a lock takes. */
#ifndef DLOCK_REDIS_CHECK_RIGHTS_H
#define DLOCK_REDIS_CHECK_RIGHTS_H

#include <stdbool.h>

struct probe;

bool rights_check(struct probe *probe);

#endif
