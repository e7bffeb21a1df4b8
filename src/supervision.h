/*
 * The keeper's loop: watches over COMMAND and its tree, over the lease, over the front, and stops
 * the tree when one of them gives a reason. One poll over signals, time, the renewal's news and the
 * front; nothing in it waits for anything else.
 */
#ifndef DLOCK_SUPERVISION_H
#define DLOCK_SUPERVISION_H

#include <stdbool.h>
#include <sys/types.h>

#include "doorbell.h"
#include "lease.h"
#include "other_tree.h"
#include "process_tree.h"
#include "stopping.h"

struct keeper_task;
struct lock;
struct renewal;

struct supervision {
	const struct keeper_task *task;
	struct lock *lock;
	struct lease *lease;
	struct process_tree tree;
	struct other_tree other; /* hold: tree.other */
	struct renewal *renewal; /* NULL: the lock is still the main thread's */
	pid_t front;
	int front_fd, signal_fd, lost_fd, timer;
	nanos renewal_due; /* when the thread must be started */

	struct stopping stopping;
	enum lease_stop stop; /* why */
	bool lingering;
	nanos linger_at; /* when it will, if only keepers of hold are left; 0: COMMAND runs */
	bool warned;     /* --on-lost warn: the one warning was given */
	struct doorbell_keeper bell; /* hold: who asks for the release */
	bool given_back;             /* hold: somebody did, the caller goes on */
	bool given_up;               /* what is left cannot be stopped */
};

/* Opens what watching needs, in the keeper, whose front has the given pid. False with errno. */
bool supervision_open(struct supervision *supervision, const struct keeper_task *task, pid_t front);

bool supervision_front_is_gone(const struct supervision *supervision);

/* From COMMAND's start, with tree.command and renewal_due set, until the lock is to be given back:
 * the tree is gone, or cannot be stopped, or COMMAND is (-o). */
void supervision_run(struct supervision *supervision);

#endif
