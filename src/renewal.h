/*
 * The thread that renews the lease. It is started when the first renewal comes near, so a short
 * COMMAND never pays for it, and from then on the lock and its connections are its own until
 * renewal_finish. The kill deadline does not depend on it: the keeper's main thread only reads
 * lease->valid_until.
 */
#ifndef DLOCK_RENEWAL_H
#define DLOCK_RENEWAL_H

#include <stdbool.h>

#include "clock.h"

struct lease;
struct lease_terms;
struct lock;
struct lock_answer;
struct lock_parting;
struct renewal;

/* Starts renewing, at once and then as lease_renew_every says; also at once when the connection
 * drops. Moves lease->valid_until on; sets lease->lost and writes to news_fd (an eventfd) when the
 * loss is proven. NULL with errno when there is no thread to be had. */
struct renewal *renewal_start(
	struct lock *lock, struct lease *lease, const struct lease_terms *terms, int news_fd);

/* Ends it, has it give the lock back as lock_release does, and frees it; the lock is the caller's
 * again. If that takes until `until` the thread is left where it hangs and answer says
 * LOCK_TIMEOUT: the lock must then not be touched. True when the lock is the caller's again. */
bool renewal_finish(struct renewal *renewal, const struct lock_parting *parting, nanos until,
	struct lock_answer *answer);

#endif
