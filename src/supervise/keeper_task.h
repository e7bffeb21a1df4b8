/* What the front gives its keeper to do. */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "supervise/ward.h"

struct caller_state;
struct lease;
struct lock;

/* All borrowed: the keeper has its own copy by fork. */
struct keeper_task {
	struct lock *lock; /* lock_ask has sent the request */
	struct lease *lease;
	struct ward ward;
	const struct caller_state *caller_state;
	const char *name;
	nanos answer_until; /* how long the answer may take, */
	nanos answer_least; /* and from when a keeper that comes late to it notices (deadline.h) */
	int stop_signal;
	bool nested;         /* there is a dlock among our ancestors */
	bool close_early;    /* -o: release when COMMAND ends, descendants or not */
	bool warn_when_lost; /* --on-lost warn: COMMAND goes on */
	int wakeup_fd;       /* an eventfd that wakes the front */
	int leash;           /* of the front's guardian; -1: it has none */
};
