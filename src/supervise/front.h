/*
 * The front: the process that the caller started; its exit code is dlock's. It talks to the caller:
 * it passes signals on, shows the wait, stops and continues as any job does. It asks the service
 * nothing; its keeper does. It takes over when the keeper dies or stands still: then it stops what
 * the keeper left, and releases by the owner token, over a connection of its own.
 */
#pragma once

#include <stdbool.h>

#include "supervise/lease.h"
#include "supervise/ward.h"

struct caller_state;
struct guest;
struct lock;
struct nesting;
struct outcome;
struct server;

/* All borrowed, but for the lock. */
struct front_task {
	struct lock *lock; /* opened, nothing sent yet; its token stands in the lease. NULL: all is
			    * held around us, and nothing is asked for */
	const struct lock_request *request;
	const struct server *server;
	const char *place;       /* the server's URL, as messages show it */
	const char *const *also; /* --also: the other locks */
	size_t also_count;
	struct guest *guest;     /* the locks held around us; the front's own */
	struct lease *lease;     /* of lease_open */
	struct nesting *nesting; /* opened */
	struct lease_terms terms;
	struct ward ward; /* what the lock is for; not detached_acquire's */
	struct caller_state *caller_state;
	const char *name;
	nanos started; /* `wait` counts from here */
	nanos wait;    /* 0: do not; NANOS_NEVER: for ever */
	int stop_signal;
	bool close_early;    /* -o: release when COMMAND ends, descendants or not */
	bool warn_when_lost; /* --on-lost warn: COMMAND goes on */
	bool notify_ready;   /* --notify-ready (notify.h) */

	/* For detached_acquire, which takes no notice of what is COMMAND's. Tells the caller what
	 * was granted: LOCK_GRANTED, or LOCK_CANCELLED, LOCK_TIMEOUT, or LOCK_FAILED with
	 * granted->failure. */
	enum lock_result (*deliver)(
		struct lock *lock, struct lock_answer *granted, struct deadline deadline);
};

/* Has a keeper take the lock for its ward, to the end of COMMAND (or until the caller has it), and
 * says how it went. If one is held around us task->lock is another afterwards, or NULL. */
void front_run(struct front_task *task, struct outcome *outcome);

/* Sets the outcome of asking that was not granted: what asking_run said, and whether dlock was to
 * wait. */
void front_record_denial(const struct front_task *task, enum lock_result result,
	const struct lock_answer *answer, const struct failure *failure, struct outcome *outcome);

/* The request is not taken back yet, though that goes on to be tried: says so, with how long
 * a lock would stay that was granted; in the outcome's failure if it has one. */
void front_say_left(const struct front_task *task, struct outcome *outcome);
