#include "handover.h"

#include <poll.h>

#include "lock.h"

#define PAUSE_FIRST   1 /* ms */
#define PAUSE_LONGEST 100

void handover_verify(struct lock *lock, struct lock_answer *answer, nanos limit)
{
	nanos until;

	if (answer->handed_count == 0)
		return;
	until = clock_now() + limit;
	for (int pause = PAUSE_FIRST; clock_now() < until; pause *= 2) {
		poll(NULL, 0, pause < PAUSE_LONGEST ? pause : PAUSE_LONGEST);
		if (lock_verify(lock, answer, (struct patience){until, -1}) != LOCK_RELEASED ||
			answer->handed_count == 0)
			return;
		if (pause > PAUSE_LONGEST)
			pause = PAUSE_LONGEST;
	}
}
