/*
 * The second guardian of what COMMAND left running. Without -o the lock stays with that, and the
 * front returns all the same. Then the keeper would be alone: if it were killed, what it watches
 * over would run on after the lock's end. So the front leaves a copy of itself behind, which
 * watches over the keeper as the front did.
 *
 * The copy is no ancestor of the keeper, so orphans do not become its children. It records what is
 * below the keeper, once before the front returns and then every second.
 */
#pragma once

#include <stdbool.h>

struct keeper_task;
struct keeper_watch;

/* In the front, in phase LINGERING. False: the keeper has died meanwhile, and the front is still
 * there to take over. If no process is to be had it says that the keeper is alone. */
bool lingering_leave_behind(struct keeper_watch *watch, const struct keeper_task *order);
