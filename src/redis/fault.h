/* What a Redis server means by an error reply. Pure. */
#ifndef DLOCK_REDIS_FAULT_H
#define DLOCK_REDIS_FAULT_H

#include <stdbool.h>

struct failure;

enum fault_kind {
	FAULT_FINAL,
	FAULT_AGAIN,      /* it may pass: loading, failover, a script that hangs */
	FAULT_MOVED_AWAY, /* the same, but another server may answer at this address by then */
	FAULT_REDIRECT,   /* another node of the Cluster: MOVED, ASK */
	FAULT_MOVING,     /* it will pass: the Cluster is moving the lock's keys to another node */
	FAULT_NO_SCRIPT,  /* EVALSHA: send it in full */
	FAULT_WRONG_TYPE, /* a key holds something else than a lock */
	FAULT_NO_RIGHT,   /* a script may not run one of its commands: see fault_line() */
};

/* Reads the text of an error reply of `peer` into a failure for people: who, what, and the
 * server's own words. */
enum fault_kind fault_read(const char *text, const char *peer, struct failure *failure);

/* The failure of a `peer` whose answer is no error, but none to what it was asked either. False, as
 * failure_set. */
bool fault_nonsense(struct failure *failure, const char *peer);

/* The line of the script in which an error came up, counted from 1; 0: none is named. */
int fault_line(const char *text);

#endif
