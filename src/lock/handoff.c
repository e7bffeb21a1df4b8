#include "lock/handoff.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lock/lock.h"
#include "process/caller_state.h"

#define PAUSE_FIRST   1 /* ms */
#define PAUSE_LONGEST 100
#define STAY_LIMIT    (20 * NANOS_PER_MS) /* before it is left to another */
#define VERIFY_LIMIT  (5 * NANOS_PER_SEC)

void handoff_verify(struct lock *lock, struct lock_answer *answer, nanos limit)
{
	nanos until = clock_now() + limit;
	int pause = PAUSE_FIRST;

	while (answer->handed_count > 0 && clock_now() < until) {
		char first[LOCK_TOKEN_SIZE];

		memcpy(first, answer->handed[0], sizeof(first));
		poll(NULL, 0, pause);
		/* Too late to hear what would be asked now. */
		if (clock_now() >= until)
			return;
		if (lock_verify(lock, answer, (struct deadline){.until = until, .cancel_fd = -1}) !=
			LOCK_RELEASED)
			return;
		pause = pause * 2 < PAUSE_LONGEST ? pause * 2 : PAUSE_LONGEST;
		if (answer->handed_count > 0 && strcmp(first, answer->handed[0]) != 0) {
			pause = PAUSE_FIRST; /* the next in a row of dead ones */
			until = clock_now() + limit;
		}
	}
}

/* Returns when the child has its name: an outer dlock that finds it once we have ended is to know
 * that COMMAND did not leave it running. */
static pid_t fork_named(const char *name)
{
	int named[2];
	bool paired = pipe2(named, O_CLOEXEC) == 0;
	pid_t pid = fork();
	char none;

	if (pid == 0)
		prctl(PR_SET_NAME, name);
	if (!paired)
		return pid;
	close(named[1]);
	while (pid > 0 && read(named[0], &none, 1) < 0 && errno == EINTR)
		continue;
	close(named[0]);
	return pid;
}

/* The caller may go on waiting: with its connection, and with its next answer in the place of this
 * one, which may lie in memory that both processes have. */
void handoff_leave_behind(struct lock *lock, struct lock_answer *answer, nanos limit)
{
	static struct lock_answer own; /* large */

	own = *answer;
	if (fork_named(HANDOFF_PROGRAM) != 0)
		return;
	setpgid(0, 0);
	lock_reset(lock);
	caller_state_close_all(-1); /* a guardian's leash, too: see guardian.h */
	handoff_verify(lock, &own, limit);
	_exit(0);
}

void handoff_see_to(struct lock *lock, struct lock_answer *answer)
{
	handoff_verify(lock, answer, STAY_LIMIT);
	if (answer->handed_count > 0)
		handoff_leave_behind(lock, answer, VERIFY_LIMIT);
}
