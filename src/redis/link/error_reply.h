/* The meaning of a Redis server's error reply. Pure. */
#pragma once

#include <stdbool.h>

struct failure;

enum error_reply_kind {
	ERROR_REPLY_FINAL,
	ERROR_REPLY_AGAIN,      /* the state may pass: loading, failover, a script that hangs */
	ERROR_REPLY_MOVED_AWAY, /* the same, or another server answers there by then */
	ERROR_REPLY_REDIRECT,   /* another node of the Cluster: MOVED, ASK */
	ERROR_REPLY_MOVING,     /* the state will pass: the Cluster is moving the lock's keys */
	ERROR_REPLY_NO_SCRIPT,  /* EVALSHA: send it in full */
	ERROR_REPLY_WRONG_TYPE, /* a key holds something else than a lock */
	ERROR_REPLY_NO_RIGHT, /* a script may not run one of its commands: see error_reply_line() */
};

/* Reads the text of an error reply of `peer` into a failure for people: the server, what is wrong,
 * and the server's own words. */
enum error_reply_kind error_reply_read(const char *text, const char *peer, struct failure *failure);

/* The failure of a `peer` that answers with no error, but not to what it was asked either. False,
 * as failure_set. */
bool error_reply_nonsense(struct failure *failure, const char *peer);

/* The line of the script in which an error came up, counted from 1; 0: none is named. */
int error_reply_line(const char *text);
