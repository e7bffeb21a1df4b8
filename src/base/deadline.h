/* How long a call that talks to a server may take, and what ends it early. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

struct pollfd;

/* In time to spare, a server that is well has answered. */
#define DEADLINE_LEAST NANOS_PER_SEC

struct deadline {
	nanos until;   /* CLOCK_BOOTTIME; NANOS_NEVER: no limit */
	int cancel_fd; /* the call returns as soon as this is readable (it is not read); -1: none */
	nanos least;   /* a process that stood still while time ran out has not waited, and the
			* server may answer as soon as it is asked or read: so long a step goes on
			* from when the process notices. 0: no longer than until */
};

/* Until then, with the usual time to spare; nothing cancels it. */
struct deadline deadline_alone(nanos until);

enum deadline_end { DEADLINE_READY, DEADLINE_OVER, DEADLINE_CANCELLED };

/* Waits until fd is ready for events (poll(2); an error or a hang-up makes it ready). fd -1: only
 * lets the time pass. A descriptor that is ready counts even when time is up. If least was needed,
 * until is later afterwards and least is 0: a step that waits in a loop gets it once. Any thread.
 */
enum deadline_end deadline_wait(struct deadline *deadline, int fd, short events);

/* The same for any of so many descriptors; the first is the deadline's own, and filled in here. */
enum deadline_end deadline_wait_any(struct deadline *deadline, struct pollfd *fds, unsigned count);

/* Whether time is up; least as above. */
bool deadline_is_over(struct deadline *deadline);

/* Lets a span pass, or what patience leaves of it. False: cancelled. */
bool deadline_pause(struct deadline deadline, nanos span);

/* The same patience, but for a span from now at most. */
struct deadline deadline_within(struct deadline deadline, nanos span);
