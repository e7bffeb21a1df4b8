/*
 * A process that is not our child, and what descends from it: the caller of `dlock hold`, or a
 * keeper that is not ours. Its orphans do not become our children, so its members must be recorded
 * before they are stopped. A process that is forked at that very moment may escape: this promises
 * less than our own tree does.
 *
 * Used through process_tree, whose rules hold here too, but for one: before SIGKILL it may wait for
 * a few ms, until all stand still.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process_tree;

/* There is one in a process. */
struct foreign_tree {
	pid_t root;
	uint64_t start;     /* the root's, as struct process has it */
	int fd;             /* the root's pidfd; borrowed */
	const char *token;  /* borrowed; NULL, or the DLOCK_TOKEN that all members got: once the
			     * root has ended they are looked for by it, too */
	size_t count;       /* the members that live, as far as is known */
	unsigned come, gone; /* how many were recorded so far, and how many of these have ended */
	bool begun;          /* they are being recorded */
	bool missed;         /* there was no room for one, or it could not be looked for */
};

/* From now on `tree` is about this one, which must stay where it is:
 *   - tree_reap tells whether the root has ended (`over`), and once members are recorded how many
 *     have ended (`reaped`) and whether all have. It never is empty if one may have been missed;
 *   - tree_signal records the members and signals them, parents before children. For SIGKILL all
 * are stopped first, so that none forks meanwhile, and then killed from below: a parent's end would
 *     continue a stopped process group that it leaves behind (kill_orphaned_pgrp() in
 *     kernel/exit.c);
 *   - tree_list lists the members that live. */
void foreign_tree_attach(struct foreign_tree *foreign, struct process_tree *tree);

/* Records the members of this moment. */
void foreign_tree_record(struct foreign_tree *foreign);
