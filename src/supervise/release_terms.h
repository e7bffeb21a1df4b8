/* The end of a lock: with what it is released, and what is said of it. */
#pragma once

#include "base/deadline.h"
#include "lock/lock.h"
#include "supervise/lease.h"

struct task;

/* With what the lock is released after COMMAND was started under it: what is left of --at-least,
 * whether COMMAND ended well, and until when the lock is proved to be ours. `status` is as from
 * waitpid(2), of a COMMAND that was not stopped; -1: there is none. */
struct release_terms release_terms_make(const struct lease *lease, int status);

/* How long a release is tried: of several locks so long for each. */
nanos release_terms_span(const struct task *task);

/* How long the server may take for it, if it is to be done by then. */
struct deadline release_terms_limit(nanos until);

/* Says how the release went, if that is worth a line, and records it in the lease; its `stop` is
 * set. */
void release_terms_report(struct lease *lease, const struct lock_answer *answer);
