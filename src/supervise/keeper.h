/*
 * The keeper: the process between the front and COMMAND. It talks to the service: it connects,
 * asks, waits in the queue, starts COMMAND, renews, stops the tree, and releases.
 *
 * Why it exists: if the process that the user started is killed, COMMAND must not run on while
 * another takes the lock. From the grant on the keeper has a process group of its own, so neither a
 * terminal nor `kill %1` reaches it. It is the reaper of COMMAND's descendants, and goes on
 * renewing while the front is stopped by Ctrl-Z. Before the grant it is in the front's group, so
 * that Ctrl-Z stops a waiter whole.
 */
#pragma once

#include <sys/types.h>

struct task;

/* Forks the keeper; returns its pid, or -1 with errno. The keeper itself never returns, and tells
 * all through task->lease. From the grant on, signals sent to it go to its ward. */
pid_t keeper_start(const struct task *task);
