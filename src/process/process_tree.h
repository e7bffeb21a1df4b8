/*
 * COMMAND and everything that descends from it, seen from a subreaper (PR_SET_CHILD_SUBREAPER,
 * Linux 3.4): an orphan below becomes our own child, whatever setsid or double fork it went
 * through.
 *
 * No function here allocates, takes a lock or waits: the kill deadline depends on nothing else.
 * (But for SIGKILL to what may not be signalled: see cgroup_kill.h.) One thread, the one that
 * started COMMAND or took its tree over.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/clock.h"

struct process_tree;

/* The operations of a tree, for the functions below: the tree of this process is one row, that of
 * another process (foreign_tree.h) the other. */
struct tree_ops {
	bool ours; /* a process that loses its parent becomes our child, and SIGCHLD tells of each
		    * end; if not, it is to be looked at again every few ms */
	void (*reap)(struct process_tree *tree);
	void (*signal)(const struct process_tree *tree, int sig);
	size_t (*list)(const struct process_tree *tree, pid_t *pids, size_t most);
};

struct process_tree {
	const struct tree_ops *ops; /* set by tree_open: our own */
	void *foreign;              /* of other ops: theirs; borrowed */

	pid_t command;   /* our child whose status counts; 0: none */
	bool over;       /* COMMAND has ended; status is there */
	bool stopped;    /* COMMAND is stopped by a signal (Ctrl-Z) */
	int status;      /* as from waitpid(2) */
	unsigned reaped; /* how many children have been collected */
	bool empty;      /* nothing is left: known after tree_reap */

	/* Children that were here before, and what they leave to us: not ours to stop. */
	size_t stranger_count;
	nanos begun; /* a process that started before this is none of COMMAND's either; 0: not known
			yet */
};

/* tree: zeroed. Makes this process the reaper of all that descends from it, and sets children that
 * it already has aside: a shell may have exec'ed dlock with jobs in the background. False with
 * errno: this process cannot be a reaper. */
bool tree_open(struct process_tree *tree);

/* Opens the list of our children ahead of the time when it is needed, so that no descriptor is
 * needed then to kill them: what is killed leaves its own children to us. False with errno; it is
 * tried again when it is needed. */
bool tree_prepare(void);

/* Records anew which other children there are, with all that descends from them: what they leave to
 * us while we wait is not COMMAND's either. `but` is the child that is left out. */
void tree_record_strangers(struct process_tree *tree, pid_t but);

/* Closes that list, for a process that will have no tree of its own. */
void tree_close(void);

/* See struct tree_ops. */
bool tree_is_ours(const struct process_tree *tree);

/* Collects every child that has ended, and COMMAND's stops and continuations, without waiting. A
 * child that only its debugger has not reaped counts as ended. */
void tree_reap(struct process_tree *tree);

/*
 * Sends a signal to COMMAND, which is known by its pid even if no list can be read, and to every
 * descendant, parents before children: a shell must not go on to its next command because the last
 * one was ended first. Our own children's pids cannot be reused before we reap them. The others are
 * signalled through a pidfd that is opened first and compared with its parent afterwards. For
 * SIGKILL call it again every few ms until the tree is empty: a killed process cannot fork, and its
 * children become ours.
 */
void tree_signal(const struct process_tree *tree, int sig);

/* The same for the descendants of another process, which is not signalled itself. */
void tree_signal_below(pid_t root, int sig);

/* The first `most` descendants' pids; returns how many. */
size_t tree_list(const struct process_tree *tree, pid_t *pids, size_t most);
