/* What front.c, where a run begins and waits, and front_end.c, where it ends, share. */
#ifndef DLOCK_FRONT_OWN_H
#define DLOCK_FRONT_OWN_H

#include <stdbool.h>

#include "clock.h"
#include "failure.h"
#include "front.h"
#include "wait_line.h"
#include "watch.h"

struct keeper_task;

#define RELEASE_LIMIT (2 * NANOS_PER_SEC)

struct front {
	const struct front_task *task;
	struct lock *lock;
	struct outcome *outcome;
	struct watch watch;
	struct lease *lease;
	struct wait_line line;
	int cancel_fd; /* what ends a wait: watch.ending_fd; with hold the caller's end, too */
	struct failure trouble; /* why no server has answered yet */
	bool told;              /* it has said so itself */
	bool answered; /* a server has answered: from now on a broken connection is mended */
	bool ancestry_learned;
	bool outstanding; /* a request or a place in the queue is to be taken back in the end */
};

/* The keeper has sent the release and ended while the server worked on it: hears the answer. */
void front_hear_parting(struct front *f, const struct keeper_task *order);

/* COMMAND ran, or could not be started; the keeper has done its work: settles the outcome. */
void front_conclude(struct front *f);

/* The same for the caller of hold, who hears of the lock by our exit code. If a signal keeps us
 * from telling him, the keeper sees that we end without, and gives the lock back. */
void front_conclude_hold(struct front *f);

/* The keeper died before its work was done, and COMMAND with it (PR_SET_PDEATHSIG): stops what is
 * left of the tree, gives the lock back over a connection of its own, and settles the outcome.
 * Blocks for the grace, and RELEASE_LIMIT. */
void front_take_over(struct front *f, const struct keeper_task *order);

#endif
