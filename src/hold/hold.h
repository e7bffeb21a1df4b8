/*
 * dlock hold: the lock for a process that is there already, the caller, in place of a COMMAND. The
 * front waits as ever and returns with the grant; the keeper stays, out of everybody's way, until
 * the caller ends or somebody asks for the lock's release.
 */
#ifndef DLOCK_HOLD_HOLD_H
#define DLOCK_HOLD_HOLD_H

#include <stdbool.h>

#include "hold/caller.h"
#include "lock/lock.h"

struct caller_state;
struct lease;
struct outcome;
struct keeper_loop;

struct hold {
	struct caller caller;
	const char *prefix, *name;
	const struct caller_state *caller_state;
	bool print; /* what COMMAND would find in its environment, as lines of sh */
};

/* The front's: readable when cancel_fd is, or the caller has ended, who is waited for in vain then.
 * -1 with errno. */
int hold_cancel_fd(const struct hold *hold, int cancel_fd);

/* The front's: the keeper has the lock and does without us, or has ended. Prints what is to be
 * printed, sets outcome->kind, and notes in the lease that the caller will hear of the lock. */
void hold_conclude(
	const struct hold *hold, struct lease *lease, const char *token, struct outcome *outcome);

/* The keeper's, in place of starting a COMMAND: lets go of all that is the caller's, and of the
 * front. Does not return where the caller holds the lock already, by an earlier dlock hold. */
void hold_begin(struct keeper_loop *loop);

/* The keeper's, after its last message: answers those who wait for the release. */
void hold_end(struct keeper_loop *loop, const struct lock_answer *released);

#endif
