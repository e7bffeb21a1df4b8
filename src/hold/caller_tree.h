/*
 * A process that is not ours, and what descends from it: the caller of `dlock hold`. Its orphans
 * do not become our children, so who belongs to it must be noted before it is stopped, and a
 * process that is forked at that very moment may escape: hold promises less than the run form.
 *
 * Used through process_tree, whose rules hold here too, but for one: before SIGKILL it may wait for
 * a few ms, until all stand still.
 */
#ifndef DLOCK_HOLD_CALLER_TREE_H
#define DLOCK_HOLD_CALLER_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct caller;

struct caller_tree {
	const struct caller *root; /* borrowed */
	const char *token;         /* borrowed; NULL, or the DLOCK_TOKEN that all of them got: once
				    * the root has ended they are looked for by it, too */
	size_t count, gone;        /* who was noted, and who of them has ended */
};

/* Notes who belongs to it, and sends a signal, parents before children. For SIGKILL all are stopped
 * first, so that none forks meanwhile, and then killed from below: a parent's end would continue a
 * stopped process group that it leaves behind (kill_orphaned_pgrp() in kernel/exit.c). */
void caller_tree_signal(struct caller_tree *tree, int sig);

/* Whether the root has ended; and once something was signalled how many have, and whether all. */
void caller_tree_look(struct caller_tree *tree, bool *over, unsigned *ended, bool *empty);

/* The first `most` pids of those that live; returns how many. */
size_t caller_tree_list(const struct caller_tree *tree, pid_t *pids, size_t most);

#endif
