#include "lock/handoff.h"

#include <bsd/string.h>
#include <poll.h>
#include <string.h>

#define PAUSE_FIRST   1 /* ms */
#define PAUSE_LONGEST 100

void handoff_verify(struct lock *lock, nanos limit)
{
	nanos until = clock_now() + limit;
	int pause = PAUSE_FIRST;
	const char *next = lock_handed(lock);

	while (next && clock_now() < until) {
		char first[LOCK_TOKEN_SIZE];

		strlcpy(first, next, sizeof(first));
		poll(NULL, 0, pause);
		/* Too late to hear what would be asked now. */
		if (clock_now() >= until)
			return;
		if (lock_verify(lock, (struct deadline){.until = until, .cancel_fd = -1}) !=
			LOCK_RELEASED)
			return;
		next = lock_handed(lock);
		pause = pause * 2 < PAUSE_LONGEST ? pause * 2 : PAUSE_LONGEST;
		if (next && strcmp(first, next) != 0) {
			pause = PAUSE_FIRST; /* the next in a row of dead ones */
			until = clock_now() + limit;
		}
	}
}
