/*
 * Renewing the lease, by a thread. It is started when the first renewal comes near, so a short
 * COMMAND never pays for it. From then on the lock and its connections are its own until
 * renewal_finish. As long as no thread is to be had (EAGAIN: the user's limit of processes) the
 * keeper's main thread renews by hand. The kill deadline does not depend on the thread: the
 * keeper's main thread only reads lease->valid_until.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "lock/lock.h"

struct lease;
struct renewal;

/* Prepares renewing by this process. Moves lease->valid_until on; sets lease->lost and writes to
 * wakeup_fd (an eventfd) when the loss is proven. There is one in a process; it is not freed. */
struct renewal *renewal_open(struct lock *lock, struct lease *lease, int wakeup_fd);

/* Starts the thread: it renews at once and then as lease_renew_every says; also at once when the
 * connection drops. False with errno when there is no thread to be had; it may be tried again. */
bool renewal_start(struct renewal *renewal);

/* The keeper is the lock's owner from now on: a renewal that begins at once puts that on record.
 * The thread's; else see lease->owner. */
void renewal_pass_on(struct renewal *renewal);

/* One renewal in the calling thread, while the other has not been started: until the given moment
 * at the latest. Returns when the next is due; NANOS_NEVER: the lock is lost. */
nanos renewal_try(struct renewal *renewal, nanos until);

/* Ends it, if there is one (NULL), and releases the lock as lock_release does; the thread does
 * that, if it runs. If it takes longer than `until` the thread is left where it hangs, and answer
 * says LOCK_TIMEOUT: the lock must then not be touched. True if the lock is the main thread's
 * again. */
bool renewal_finish(struct renewal *renewal, struct lock *lock,
	const struct release_terms *release_terms, nanos until, struct lock_answer *answer);
