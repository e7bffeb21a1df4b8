/*
 * The front: the process that the caller started; its exit code is dlock's. It asks for the lock,
 * waits for it, and forks a keeper for each request that may be granted. It passes signals on,
 * stops and continues as any job does, and takes over when the keeper dies or stands still.
 */
#pragma once

#include <stdbool.h>

#include "supervise/lease.h"
#include "supervise/ward.h"

struct caller_state;
struct lock;
struct nesting;

/* All borrowed. */
struct front_task {
	struct lock *lock;       /* opened, nothing sent yet */
	struct nesting *nesting; /* opened; what is learnt goes into the lock's request */
	const struct owner *self;
	struct lease_terms terms;
	struct ward ward; /* what the lock is for; not front_acquire's */
	struct caller_state *caller_state;
	const char *name;
	nanos started; /* `wait` counts from here */
	nanos wait;    /* 0: do not; NANOS_NEVER: for ever */
	int stop_signal;
	bool close_early;    /* -o: release when COMMAND ends, descendants or not */
	bool warn_when_lost; /* --on-lost warn: COMMAND goes on */
	bool notify_ready;   /* --notify-ready (notify.h) */

	/* For front_acquire, which takes no notice of what is COMMAND's. Tells the caller what was
	 * granted: LOCK_GRANTED, or LOCK_CANCELLED, LOCK_TIMEOUT, or LOCK_FAILED with
	 * granted->failure. */
	enum lock_result (*deliver)(
		struct lock *lock, struct lock_answer *granted, struct deadline deadline);
};

/* Takes the lock for its ward, from the first request to the end of COMMAND (or until the caller
 * has it), and says how it went. */
void front_run(const struct front_task *task, struct outcome *outcome);

/* Takes a detached lock: from the first request to the moment at which the caller has learned of
 * it, or it was released. Nothing is left running. */
void front_acquire(const struct front_task *task, struct outcome *outcome);
