/*
 * The keeper: the process between the front and COMMAND that owns the lock from its grant on.
 *
 * Why it exists: if the process that the user started is killed, COMMAND must not run on while
 * another takes the lock. The keeper has a process group of its own, so neither a terminal
 * nor `kill %1` reaches it. It is the reaper of COMMAND's descendants, and goes on renewing while
 * the front is stopped by Ctrl-Z. It is forked while the request is in flight, which hides what
 * forking costs.
 */
#pragma once

#include <sys/types.h>

struct keeper_task;

/* Forks the keeper; returns its pid, or -1 with errno. The keeper itself never returns: it reads
 * the answer, starts its ward, and tells all through task->lease. Signals sent to it go to the
 * ward. */
pid_t keeper_start(const struct keeper_task *task);
