/*
 * The words for a wait that would never end (EXIT_DEADLOCK): one sentence each for all services.
 */
#pragma once

#include "lock/lock.h"

/* Each holder, its lock, and the lock that it waits for: "a is held by web3:77, which waits for b,
 * which". Words that do not fit are left out. */
struct deadlock_path {
	char text[296];
};

/* path: begins with the lock that is wanted. */
void deadlock_path_begin(struct deadlock_path *path, const char *name);

/* The last one is held by the owner of that token ("HOST:PID:...", up to the end or a newline),
 * which waits for the lock `name`. */
void deadlock_path_add(struct deadlock_path *path, const char *token, const char *name);

/* The last lock of the path is held by a dlock around this one. False, as failure_set. */
bool deadlock_by_circle(const char *path, struct failure *failure);
