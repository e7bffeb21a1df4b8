/* The task of a run: the front's, which `acquire` has in its one process, and by fork the keeper's.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "supervise/lease.h"
#include "supervise/ward.h"

struct caller_state;
struct guest;
struct lock;
struct nesting;
struct server;

/* All borrowed, but for the lock. */
struct task {
	struct lock *lock; /* opened, nothing sent yet; its token stands in the lease. NULL: all is
			    * held around us, and nothing is asked for */
	const struct lock_request *request;
	const struct server *server;
	const char *place;       /* the URL of the server, as messages show it */
	const char *const *also; /* --also: the other locks */
	size_t also_count;
	struct guest *guest;     /* the locks held around us; the front's own */
	struct lease *lease;     /* of lease_open; its terms are set */
	struct nesting *nesting; /* opened */
	struct ward ward;        /* the ward, for which the lock is; zeros: none, it is detached */
	struct caller_state *caller_state;
	const char *name;
	nanos started; /* `wait` counts from here */
	nanos wait;    /* 0: do not; NANOS_NEVER: for ever */
	int stop_signal;
	bool close_early;    /* -o: release when COMMAND ends, descendants or not */
	bool warn_when_lost; /* --on-lost warn: COMMAND goes on */
	bool notify_ready;   /* --notify-ready (notify.h) */

	/* Between front and keeper, from keeper_watch_open on. */
	bool notifies; /* the front tells a service manager of it (notify.h) */
	bool nested;   /* there is a dlock among our ancestors */
	int wakeup_fd; /* an eventfd that wakes the front */
	int news_fd;   /* readable when the front has news, or is gone; the front's is `tell_fd` */
	int tell_fd;
};
