/*
 * dlock hold: the lock for a process that is there already, the caller, in place of a COMMAND. The
 * front waits as ever and returns with the grant. The keeper stays, in a session of its own, until
 * the caller ends or somebody asks for the lock's release.
 */
#pragma once

#include <stdbool.h>

#include "hold/caller.h"
#include "hold/release_socket.h"
#include "process/foreign_tree.h"
#include "supervise/ward.h"

struct hold {
	struct caller caller;
	bool print; /* the variables that COMMAND would find in its environment, as lines of sh */

	/* The keeper's, from its start. */
	struct foreign_tree tree; /* the caller and what descends from it */
	struct release_socket release_socket;
};

/* The caller as a ward. `own` is a struct hold in which the caller is set. The keeper closes all
 * that is the caller's, and goes on without the front. If the caller holds the lock already, by an
 * earlier dlock hold, the keeper ends at once. */
extern const struct ward_ops hold_ward;
