/*
 * The keeper's loop: watches over COMMAND and its tree, over the lease and the front, and stops the
 * tree when one of them gives a reason. It is one poll over signals, time, the renewal's wakeups
 * and the front. Nothing in it waits for anything else.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "process/process_tree.h"
#include "process/stopping.h"
#include "supervise/guest.h"
#include "supervise/lease.h"

struct task;
struct lock;
struct renewal;

struct keeper_loop {
	const struct task *task;
	struct lock *lock; /* NULL: all is held around us (guest.h) */
	struct lease *lease;
	struct guests guests;
	struct process_tree tree;
	struct renewal *renewal; /* NULL: none was due yet */
	pid_t front;
	int front_fd, signal_fd, lost_fd, timer;
	int ward_fd;       /* its pidfd: readable when it has ended; -1: that is known */
	int release_fd;    /* readable when its release was asked for; -1: never */
	bool ward_news;    /* ward_fd was readable */
	nanos renewal_due; /* when the main thread must see to it; NANOS_NEVER: the thread does */

	struct stopping stopping;
	enum lease_stop stop; /* why */
	bool lingering;
	nanos linger_at; /* when it will, if only what ends soon is left (survivors.h); 0: COMMAND
			    runs */
	bool warned;     /* the loss is no longer news: COMMAND goes on, or is being stopped */
	bool given_back; /* the release was asked for; the ward goes on */
	bool host_gone;  /* a host of ours (guest.h) has ended, or lost its lock */
	bool given_up;   /* the processes left cannot be stopped */
};

/* Opens what watching needs, in the keeper of the front with this pid. False with errno. */
bool keeper_loop_open(struct keeper_loop *loop, const struct task *task, pid_t front);

bool keeper_loop_front_is_gone(const struct keeper_loop *loop);

/* Wakes the front, which has something to tell its service manager, if there is one. */
void keeper_loop_notify(const struct keeper_loop *loop);

/* From the ward's start until the lock is to be released: the tree is gone, or cannot be stopped,
 * or COMMAND is gone (-o), or the release was asked for. renewal_due is set. */
void keeper_loop_run(struct keeper_loop *loop);

/* Looks after the tree: collects what has ended, and starts to linger if that is due. */
void keeper_loop_look(struct keeper_loop *loop);

/* Sends the stop signal, unless that is done already, and says what it is given. */
void keeper_loop_stop(struct keeper_loop *loop, enum lease_stop why, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
