/* The front takes over from a keeper that died, or stood still, before its work was done.
 */
#pragma once

#include "supervise/outcome.h"

struct keeper_watch;

/* After KEEPER_WATCH_DIED; COMMAND has died with the keeper (PR_SET_PDEATHSIG), or before it. Stops
 * what is left of the tree, releases the lock over a connection of its own, and says what
 * happened. The lease has the rest of the run then; returned is the kind of outcome. Blocks for the
 * grace, and two seconds. */
enum outcome_kind takeover(struct keeper_watch *watch);

/* After KEEPER_WATCH_LATE: takes back whatever the keeper has asked for. Half a second at most.
 * False: the server has not said that nothing of it is left. */
bool takeover_withdraw(const struct keeper_watch *watch);
