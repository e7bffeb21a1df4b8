/* How long a call that talks to a server may take, and what ends it early. */
#ifndef DLOCK_PATIENCE_H
#define DLOCK_PATIENCE_H

#include "clock.h"

struct patience {
	nanos until;   /* CLOCK_BOOTTIME; NANOS_NEVER: no limit */
	int cancel_fd; /* the call returns as soon as this is readable (it is not read); -1: none */
};

#endif
