/* How long a server takes, and what its clock says. */
#ifndef DLOCK_REDIS_CHECK_LATENCY_H
#define DLOCK_REDIS_CHECK_LATENCY_H

#include <stdbool.h>

struct probe;

bool latency_check(struct probe *probe);

#endif
