/*
 * The ward of front and keeper, for which a lock is taken: a COMMAND, or a process that is there
 * already (the caller of `dlock hold`). The two are rows of one table, and all in which they differ
 * is an operation of it. Front and keeper treat them alike in all else: asking, waiting, renewing,
 * stopping and releasing.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>

struct failure;
struct keeper_loop;
struct keeper_task;
struct keeper_watch;
struct lock_answer;
struct outcome;
struct signalfd_siginfo;

#define WARD_FDS 2 /* the descriptors that the keeper's loop watches for it, at most */

/* The name of the keeper of a lock for a caller (PR_SET_NAME). An outer dlock knows it by
 * that (survivors.h). */
#define HOLDER_PROGRAM "dlock hold"

/* `own` is struct ward's; the keeper finds it as loop->task->ward.own. NULL in a row of COMMAND or
 * of no process: there is nothing to do, to watch, or that could be so. */
struct ward_ops {
	const char *name; /* in messages: "stopping COMMAND" */
	bool own_session; /* with the grant the keeper leaves the front's session, not only its
			   * process group */

	/* The front's. Readable when the ward has ended: before the grant, so has all. */
	int (*end_fd)(const void *own);

	/* The failure that this is. */
	void (*explain_end)(const void *own, struct failure *failure);

	/* In phase LINGERING: sees to it that the keeper is watched over after the front's end, if
	 * that is called for. NULL: it is not. False: the keeper has died meanwhile, and the front
	 * must take over.
	 */
	bool (*leave_behind)(struct keeper_watch *watch, const struct keeper_task *task);

	/* The keeper has done its work or does without the front: sets the outcome's kind and what
	 * belongs to that. The word of the lease is in the outcome already, and the signals that
	 * came are recorded. `token` is the lock's. */
	void (*conclude)(const void *own, const struct keeper_watch *watch, const char *token,
		struct outcome *outcome);

	/* The keeper's, on its main thread. The lock is granted: starts the ward, or attaches to
	 * it. False: there is nothing to watch over, and the lock is released; the lease says why.
	 */
	bool (*start)(struct keeper_loop *loop);

	/* Fills in what the loop is to watch besides; as they come the fds are -1. */
	void (*watch)(const struct keeper_loop *loop, struct pollfd fds[WARD_FDS]);

	/* Whether the release was asked for, by what is watched. */
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
	void *own; /* as its row says; borrowed. The keeper has a copy by fork */
};
