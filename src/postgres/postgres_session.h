/*
 * A session with a PostgreSQL server, by libpq, that never blocks longer than its deadline. Each
 * statement is a transaction of its own, at READ COMMITTED whatever the role's default is. One
 * thread at a time.
 */
#pragma once

#include <libpq-fe.h>
#include <netinet/in.h>
#include <stdbool.h>

#include "base/deadline.h"
#include "base/failure.h"
#include "base/number.h"
#include "lock/lock.h"

struct server;

/* The output of sql/embed.sh, a statement each: the settings of a session (gives the backend's
 * pid); the format of what is kept (and the pid); schema and functions; a lock that nobody has; its
 * release, if nobody came since. */
extern const char sql_settings[], sql_format[], sql_install[], sql_take[], sql_release[];

/* Begins as zeros but for server. */
struct postgres_session {
	const struct server *server; /* borrowed */
	PGconn *connection;          /* owned; NULL: none */
	/* Which server served last. No address: none did, or by a unix socket. */
	char host[256], address[INET6_ADDRSTRLEN], port[NUMBER_SIZE];
	char pid[NUMBER_SIZE]; /* of the server's process; an argument even before it is known */
	bool is_set;           /* the session has its settings, */
	bool is_known;         /* and the format is ours */
	bool not_ready;        /* the server is there, but had no session for us */
	bool by_name;          /* the last attempt left it to libpq to look up names */
	bool is_take;          /* the statement must take no lock once it is given up */
};

/* $1, $2 and so on: ARGUMENTS(name, NUMBER(ttl), FLAG(detached)). NULL: null. */
#define ARGUMENTS(...)                                                                             \
	(int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *const[])       \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}
#define NUMBER(number) number_text((char[NUMBER_SIZE]){0}, number)
#define FLAG(flag)     ((flag) ? "t" : "f")

/* Executes a statement; connects first if need be, and makes what is missing of schema and
 * functions. The settings go before the first statement, in one packet with it. Returns the rows,
 * for PQclear(); the answer has the times and the result. NULL: LOCK_TIMEOUT (failure names the
 * server) or LOCK_CANCELLED: the connection is closed, and the statement may yet be executed; or
 * LOCK_FAILED with failure: nothing was changed, unless the connection broke: there is none then.
 */
PGresult *postgres_session_call(struct postgres_session *session, const char *statement, int count,
	const char *const *arguments, struct deadline deadline, struct lock_answer *answer);

/* A field of a row by its column's name, borrowed from the result; "" or 0 where there is none. */
const char *text_at(const PGresult *result, int row, const char *column);
int64_t number_at(const PGresult *result, int row, const char *column);
bool flag_at(const PGresult *result, int row, const char *column);
enum lock_mode mode_at(const PGresult *result, int row, const char *column);

/* Waits for a notification on any channel that the session listens to. LOCK_GRANTED: *number is
 * what it says; -1: the connection broke. LOCK_TIMEOUT, LOCK_CANCELLED. */
enum lock_result postgres_session_listen(
	struct postgres_session *session, struct deadline deadline, int64_t *number);

/* Ends the session; what it has by sessions (advisory locks) is free. */
void postgres_session_close(struct postgres_session *session);
