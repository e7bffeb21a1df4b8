/*
 * A session with a PostgreSQL server, by libpq, that never blocks longer than its deadline. Each
 * statement is a transaction of its own, at READ COMMITTED whatever the role's default is. One
 * thread at a time.
 */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>

#include "base/deadline.h"
#include "base/failure.h"
#include "lock/lock.h"

#define SESSION_PARAMETERS 20 /* of a statement, at most */

struct server;

/* Begins as zeros but for server. */
struct session {
	const struct server *server; /* borrowed */
	PGconn *connection;          /* owned; NULL: none */
	bool set_up;                 /* the session's settings were made */
	nanos sent_at;               /* before the last statement left */
};

/* Executes a statement with text parameters (NULL: null); connects first if that is needed, and
 * makes schema and functions if they are missing. LOCK_GRANTED: *result is the caller's, PQclear()
 * it. LOCK_TIMEOUT and LOCK_CANCELLED: the connection is closed, and the statement may yet be
 * executed. LOCK_FAILED: failure; nothing was changed, unless the connection broke
 * (EXIT_UNREACHABLE). */
enum lock_result session_call(struct session *session, const char *statement, int count,
	const char *const *parameters, PGresult **result, struct deadline deadline,
	struct failure *failure);

/* Waits for a notification on any channel that the session listens to. LOCK_GRANTED: *payload is
 * the caller's, PQfreemem() it; NULL: the connection broke. LOCK_TIMEOUT, LOCK_CANCELLED. */
enum lock_result session_listen(
	struct session *session, struct deadline deadline, PGnotify **notification);

/* Ends the session; what it has by sessions (advisory locks) is free. */
void session_close(struct session *session);

/* Another process uses it from now on: closes this side's descriptor, without a word. */
void session_leave(struct session *session);

/* For poll(2); -1: there is none. */
int session_fd(const struct session *session);
