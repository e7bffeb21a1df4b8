#include "lock/handoff.h"

#include <bsd/string.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "process/caller_state.h"
#include "process/process.h"

#define PAUSE_FIRST   1 /* ms */
#define PAUSE_LONGEST 100
#define STAY_LIMIT    (20 * NANOS_PER_MS) /* before it is left to another */

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

/* The caller may go on waiting, with its connection. */
void handoff_leave_behind(struct lock *lock)
{
	if (process_fork(HANDOFF_PROGRAM) != 0)
		return;
	setpgid(0, 0);
	lock_leave(lock);
	caller_state_close_all(-1); /* a guardian's leash, too: see guardian.h */
	handoff_verify(lock, HANDOFF_LIMIT);
	_exit(0);
}

void handoff_see_to(struct lock *lock)
{
	handoff_verify(lock, STAY_LIMIT);
	if (lock_handed(lock))
		handoff_leave_behind(lock);
}
