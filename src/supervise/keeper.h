/*
 * The keeper: the process between the front and COMMAND that owns the lock from its grant on.
 *
 * Why it exists: if the process that the user started is killed, COMMAND must not run on while
 * another takes the lock. The keeper has a process group of its own, so neither a terminal
 * nor `kill %1` reaches it. It is the reaper of COMMAND's descendants, and goes on renewing while
 * the front is stopped by Ctrl-Z. It is forked while the request is in flight, which hides what
 * forking costs.
 */
#ifndef DLOCK_SUPERVISE_KEEPER_H
#define DLOCK_SUPERVISE_KEEPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "supervise/lease.h"
#include "supervise/ward.h"

struct caller_state;
struct lock;

/* All borrowed: the keeper has its own copy by fork. */
struct keeper_task {
	struct lock *lock; /* lock_ask has sent the request */
	struct lease *lease;
	struct lease_terms terms;
	struct ward ward;
	const struct caller_state *caller_state;
	const char *name;
	nanos answer_until; /* how long the answer may take, */
	nanos answer_least; /* and from when a keeper that comes late to it notices (deadline.h) */
	int stop_signal;
	bool nested;         /* there is a dlock among our ancestors */
	bool close_early;    /* -o: give back when COMMAND ends, descendants or not */
	bool warn_when_lost; /* --on-lost warn: COMMAND goes on */
	int wakeup_fd;       /* an eventfd that wakes the front */
	int leash;           /* of the front's guardian; -1: it has none */
};

/* Forks the keeper; returns its pid, or -1 with errno. The keeper itself never returns: it reads
 * the answer, starts its ward, and tells all through task->lease. Signals sent to it go to the
 * ward. */
pid_t keeper_start(const struct keeper_task *task);

#endif
