/*
 * The news of a run for a service manager, by sd_notify(3)'s protocol: one datagram each to the
 * socket that NOTIFY_SOCKET names. All are the front's, which is the service's main process: by
 * default a manager listens to no other. A socket that takes nothing just now costs the message,
 * and no time.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

struct lease;
struct outcome;
struct wait_page;

enum notify_told { NOTIFY_NOTHING, NOTIFY_HELD, NOTIFY_LOST, NOTIFY_STOPPING };

struct notify {
	bool wanted;           /* else nothing is ever sent */
	bool ready;            /* --notify-ready: READY=1 is dlock's to send */
	const char *name;      /* of the lock; borrowed */
	nanos due;             /* when the next message of a wait is due; 0: at once */
	nanos every;           /* how long after the last one that is */
	int rank;              /* how many were ahead in the last one */
	enum notify_told told; /* of the lease, so far */
};

/* Whether there is such a socket. A dlock inside of another's COMMAND is not the service, and says
 * nothing unless --notify-ready asks for it. */
bool notify_is_wanted(bool ready);

void notify_open(struct notify *notify, const char *name, bool ready);

/* The wait goes on, as the page says: says so if that is due, or if more or fewer are ahead than
 * before, and has the manager wait as well. NULL: nothing. */
void notify_wait(struct notify *notify, struct wait_page *page);

/* When that is due by itself; NANOS_NEVER: nothing is sent. */
nanos notify_due(const struct notify *notify, const struct wait_page *page);

/* The front's look at the lease while the keeper is at work: says that the lock is held, or lost,
 * if it has not yet. NULL: nothing. */
void notify_look(struct notify *notify, struct lease *lease);

/* How it ended. */
void notify_end(struct notify *notify, const struct outcome *outcome);

/* The keeper's, right after the grant: has the front say so, and waits for it (100 ms at most), so
 * that what COMMAND says itself comes later. */
void notify_await(const struct lease *lease, int wakeup_fd);
