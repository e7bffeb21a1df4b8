/* How long a call that talks to a server may take, and what ends it early. */
#ifndef DLOCK_PATIENCE_H
#define DLOCK_PATIENCE_H

#include "clock.h"

struct patience {
	nanos until;   /* CLOCK_BOOTTIME; NANOS_NEVER: no limit */
	int cancel_fd; /* the call returns as soon as this is readable (it is not read); -1: none */
};

enum patience_end { PATIENCE_READY, PATIENCE_OVER, PATIENCE_CANCELLED };

/* Waits until fd is ready for events (poll(2); an error or a hang-up makes it ready). fd -1: only
 * lets the time pass. What is ready counts even when time is up. Any thread. */
enum patience_end patience_wait(struct patience patience, int fd, short events);

/* The same, but for a span from now at most. */
struct patience patience_within(struct patience patience, nanos span);

#endif
