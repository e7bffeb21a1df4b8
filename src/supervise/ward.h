/*
 * The ward of front and keeper, for which a lock is taken: a COMMAND, or a process that is there
 * already (the caller of `dlock hold`). The two are rows of one table, and all in which they differ
 * is an operation of it. Front and keeper treat them alike in all else: asking, waiting, renewing,
 * stopping and releasing.
 */
#pragma once

#include <stdbool.h>

struct failure;
struct keeper_loop;
struct task;
struct keeper_watch;
struct lock_answer;
struct outcome;
struct signalfd_siginfo;

/* The name of the keeper of a lock for a caller (PR_SET_NAME). An outer dlock knows it by
 * that (survivors.h). */
#define HOLDER_PROGRAM "dlock hold"

/* NULL in a row of COMMAND: there is nothing to do, to watch, or that could be so. */
struct ward_ops {
	const char *name; /* in messages: "stopping COMMAND" */
	bool own_session; /* with the grant the keeper leaves the front's session, not only its
			   * process group */

	/* The front's. The failure that it is if end_fd is readable before the grant. */
	void (*explain_end)(const struct task *task, struct failure *failure);

	/* In phase LINGERING: sees to it that the keeper is watched over after the front's end, if
	 * that is called for. NULL: it is not. False: the keeper has died meanwhile, and the front
	 * must take over.
	 */
	bool (*leave_behind)(struct keeper_watch *watch);

	/* The keeper has done its work or does without the front: sets the outcome's kind and what
	 * belongs to that. The word of the lease is in the outcome already, and the signals that
	 * came are recorded. */
	void (*conclude)(const struct keeper_watch *watch, struct outcome *outcome);

	/* The keeper's, on its main thread. The lock is granted: starts the ward, or attaches to
	 * it, and sets what the loop is to watch: ward_fd, release_fd. False: there is nothing to
	 * watch over, and the lock is released; the lease says why. */
	bool (*start)(struct keeper_loop *loop);

	/* Whether the release was asked for, at loop->release_fd. */
	bool (*release_asked)(struct keeper_loop *loop);

	/* A signal that was sent to the keeper, other than SIGCHLD. */
	void (*forward)(struct keeper_loop *loop, const struct signalfd_siginfo *info);

	/* The front has ended, and nothing is being stopped. Called once. */
	void (*front_gone)(struct keeper_loop *loop);

	/* Before the ward is sent the stop signal, and after the message about it. */
	void (*before_stop)(struct keeper_loop *loop);
	void (*after_stop)(struct keeper_loop *loop);

	/* Before the lock is released, and after it, with the answer, when all else was said. */
	void (*releasing)(struct keeper_loop *loop);
	void (*released)(struct keeper_loop *loop, const struct lock_answer *answer);
};

struct ward {
	const struct ward_ops *ops;
	void *own;  /* as its row says; borrowed. The keeper has a copy by fork */
	int end_fd; /* readable when the ward has ended; -1: it is not there before the grant */
};
