/*
 * Stopping a tree step by step: the stop signal, the grace, then rounds of SIGKILL until nothing
 * is left. The keeper does it from its loop; the front does it when the keeper has died. Like
 * process_tree it never waits, allocates or locks.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

struct process_tree;

struct stopping {
	bool begun;
	nanos kill_at;   /* when the grace is over; stopping_step may bring it forward */
	unsigned rounds; /* of SIGKILL so far; the first was at: */
	nanos killing_since;
	nanos next_round;
	nanos pause;
	unsigned reaped; /* the tree's, at the last round */
};

/* Sends the stop signal to the whole tree; SIGKILL follows after the grace. The first call counts.
 */
void stopping_begin(
	struct stopping *stopping, const struct process_tree *tree, int stop_signal, nanos grace);

/* Does what is due. SIGKILL comes at `limit` at the latest (lease_kill_at of the validity as known
 * now). Call it at stopping_due, and after tree_reap whenever there may be more to do: the children
 * of a process that has just died are ours now, and the next round is for them. */
void stopping_step(struct stopping *stopping, struct process_tree *tree, nanos limit);

/* When stopping_step has something to do again. */
nanos stopping_due(const struct stopping *stopping, nanos limit);

/* SIGKILL was sent for a second, in ten rounds at least, and something still lives: it may not be
 * signalled (set-uid), or hangs in the kernel. */
bool stopping_is_hopeless(const struct stopping *stopping, const struct process_tree *tree);
