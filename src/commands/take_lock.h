/* The part that commands that take a lock have in common: from the first step to the words in the
 * end. */
#pragma once

#include "lock/lock.h"
#include "lock/nesting.h"
#include "process/caller_state.h"
#include "supervise/task.h"

struct options;
struct report;

struct taking {
	struct caller_state caller_state;
	struct nesting nesting;
	struct lock_request request; /* of the options; lease->owner asks */
	struct task task;            /* without a ward */
};

/* Finds what the lock is for, before it is asked for: sets task.ward, and what else the command has
 * of its own. False with failure. */
typedef bool (*take_lock_prepare)(
	const struct options *options, struct taking *taking, struct failure *failure);

/* Takes the lock, to the end of that. Once in a process. */
void take_lock(const struct options *options, take_lock_prepare prepare, struct outcome *outcome);

/* Says in one line how it went, if that is worth one and was not said when it happened. Returns
 * dlock's exit code, or dies of the signal that ended it. report NULL: none is written. */
int take_lock_end(
	const struct outcome *outcome, const struct options *options, struct report *report);
