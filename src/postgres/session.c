#include "postgres/session.h"

#include <ctype.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/server.h"
#include "postgres/sql_text.h"

/* --- Failures ------------------------------------------------------------------------------------
 */

/* The first line of what libpq says. */
static int first_line(const char *text)
{
	return (int)strcspn(text, "\n");
}

/* With verbosity SQLSTATE stands behind the severity: "FATAL:  28P01: password ...". "": none. */
static void find_state(const char *text, char state[static 6])
{
	const char *colon = text;

	state[0] = '\0';
	while ((colon = strstr(colon, ":  ")) != NULL) {
		colon += 3;
		if (strspn(colon, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 && colon[5] == ':') {
			memcpy(state, colon, 5);
			state[5] = '\0';
			return;
		}
	}
}

static enum exit_code code_of(const char *state, const char *text)
{
	if (strncmp(state, "28", 2) == 0 || strcmp(state, "42501") == 0 ||
		strcmp(state, "25006") == 0 || strstr(text, "no password supplied") ||
		strstr(text, "certificate"))
		return EXIT_REFUSED;
	if (strcmp(state, "3D000") == 0 || strstr(text, "invalid port number"))
		return EXIT_CONFIG;
	if (state[0] == '\0' || strncmp(state, "57P", 3) == 0 || strncmp(state, "53", 2) == 0 ||
		strncmp(state, "08", 2) == 0 || strcmp(state, "55P03") == 0)
		return EXIT_UNREACHABLE;
	return EXIT_PROTOCOL;
}

static enum lock_result fail_connecting(struct session *session, struct failure *failure)
{
	const char *text = PQerrorMessage(session->connection);
	enum exit_code code;
	char state[6];

	find_state(text, state);
	code = code_of(state, text);
	failure_set(failure, code, "%s %s: %.*s",
		code == EXIT_UNREACHABLE ? "cannot reach" : "cannot use", session->server->text,
		first_line(text), text);
	session_close(session);
	return LOCK_FAILED;
}

/* A statement failed, or the connection broke in it. */
static enum lock_result fail_statement(
	struct session *session, const PGresult *result, struct failure *failure)
{
	const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	const char *primary = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;

	if (!primary)
		primary = PQerrorMessage(session->connection);
	failure_set(failure, code_of(state ? state : "", primary), "%s: %.*s",
		session->server->text, first_line(primary), primary);
	return LOCK_FAILED;
}

/* --- Connecting ----------------------------------------------------------------------------------
 */

static void hear_nothing(void *context, const char *message)
{
	(void)context;
	(void)message;
}

static enum lock_result give_up(struct session *session, enum deadline_end end)
{
	session_leave(session);
	return end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
}

static PGconn *begin(const struct server *server)
{
	/* What comes later goes before what came first. */
	const char *names[] = {
		"target_session_attrs", "fallback_application_name", "password", "dbname", NULL};
	const char *values[] = {"primary", "dlock", server->password, server->path, NULL};

	return PQconnectStartParams(names, values, 1);
}

static enum lock_result connect_to(
	struct session *session, struct deadline *deadline, struct failure *failure)
{
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;

	session->set_up = false;
	session->connection = begin(session->server);
	if (!session->connection) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return LOCK_FAILED;
	}
	PQsetErrorVerbosity(session->connection, PQERRORS_VERBOSE);
	PQsetNoticeProcessor(session->connection, hear_nothing, NULL);
	if (PQstatus(session->connection) == CONNECTION_BAD)
		return fail_connecting(session, failure);
	while (next != PGRES_POLLING_OK) {
		enum deadline_end end = deadline_wait(deadline, PQsocket(session->connection),
			next == PGRES_POLLING_READING ? POLLIN : POLLOUT);

		if (end != DEADLINE_READY) {
			failure_set(failure, EXIT_UNREACHABLE, "no answer from %s",
				session->server->text);
			return give_up(session, end);
		}
		next = PQconnectPoll(session->connection);
		if (next == PGRES_POLLING_FAILED)
			return fail_connecting(session, failure);
	}
	if (PQsetnonblocking(session->connection, 1) != 0 ||
		!PQenterPipelineMode(session->connection))
		return fail_connecting(session, failure);
	return LOCK_GRANTED;
}

/* --- Statements ----------------------------------------------------------------------------------
 */

/* Whatever the role's defaults are: no statement is cut off, no idle session ended, a waiter on a
 * dead host leaves the queue after 11 s, and each statement sees what is there. */
static bool send_settings(PGconn *connection)
{
	static const char text[] =
		"SELECT set_config('statement_timeout', '0', false), "
		"set_config('lock_timeout', '5s', false), "
		"set_config('idle_in_transaction_session_timeout', '0', false), "
		"set_config('idle_session_timeout', '0', false), "
		"set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
		"WHEN 'off' THEN 'on' WHEN 'local' THEN 'on' "
		"ELSE current_setting('synchronous_commit') END, false), "
		"set_config('default_transaction_isolation', 'read committed', false), "
		"set_config('default_transaction_read_only', 'off', false), "
		"set_config('search_path', 'pg_catalog, pg_temp', false), "
		"set_config('tcp_keepalives_idle', '5', false), "
		"set_config('tcp_keepalives_interval', '2', false), "
		"set_config('tcp_keepalives_count', '3', false), "
		"set_config('tcp_user_timeout', '11s', false), pg_backend_pid()";

	return PQsendQueryParams(connection, text, 0, NULL, NULL, NULL, NULL, 0) &&
	       PQpipelineSync(connection);
}

static bool send_statement(
	PGconn *connection, const char *statement, int count, const char *const *parameters)
{
	return PQsendQueryParams(connection, statement, count, NULL, parameters, NULL, NULL, 0) &&
	       PQpipelineSync(connection);
}

/* Until libpq has a result: LOCK_GRANTED. */
static enum lock_result await_result(struct session *session, struct deadline *deadline)
{
	PGconn *connection = session->connection;

	for (;;) {
		int unsent = PQflush(connection);
		enum deadline_end end;

		if (unsent == 0 && !PQisBusy(connection))
			return LOCK_GRANTED;
		if (unsent < 0)
			return LOCK_FAILED;
		end = deadline_wait(deadline, PQsocket(connection),
			(short)(unsent ? POLLIN | POLLOUT : POLLIN));
		if (end != DEADLINE_READY)
			return give_up(session, end);
		if (!PQconsumeInput(connection))
			return LOCK_FAILED;
	}
}

/* Reads to the end of one statement. *result: its rows, or its error; NULL: the connection broke.
 */
static enum lock_result read_result(
	struct session *session, PGresult **result, struct deadline *deadline)
{
	*result = NULL;
	for (int nothing = 0; nothing < 4;) {
		enum lock_result got = await_result(session, deadline);
		PGresult *one;

		if (got != LOCK_GRANTED) {
			PQclear(*result);
			*result = NULL;
			return got;
		}
		one = PQgetResult(session->connection);
		if (!one) {
			nothing++;
			continue;
		}
		nothing = 0;
		if (PQresultStatus(one) == PGRES_PIPELINE_SYNC) {
			PQclear(one);
			return LOCK_GRANTED;
		}
		PQclear(*result);
		*result = one;
	}
	return LOCK_FAILED;
}

/* A session of a pooler is now one of the server's and then another. */
static bool is_own_session(struct session *session, const PGresult *result, struct failure *failure)
{
	if (PQresultStatus(result) != PGRES_TUPLES_OK) {
		fail_statement(session, result, failure);
		return false;
	}
	if (strtol(PQgetvalue(result, 0, PQnfields(result) - 1), NULL, 10) ==
		PQbackendPID(session->connection))
		return true;
	return failure_set(failure, EXIT_CONFIG,
		"%s is a pooler: sessions behind it are not ours alone; give dlock the server "
		"itself",
		session->server->text);
}

static enum lock_result broke(struct session *session, struct failure *failure)
{
	fail_statement(session, NULL, failure);
	failure->code = EXIT_UNREACHABLE;
	session_close(session);
	return LOCK_FAILED;
}

static enum lock_result read_settings(
	struct session *session, struct deadline *deadline, struct failure *failure)
{
	PGresult *result;
	enum lock_result got = read_result(session, &result, deadline);
	bool own;

	if (got == LOCK_FAILED)
		return broke(session, failure);
	if (got != LOCK_GRANTED)
		return got;
	own = is_own_session(session, result, failure);
	PQclear(result);
	session->set_up = own;
	if (!own)
		session_close(session);
	return own ? LOCK_GRANTED : LOCK_FAILED;
}

/* One try. Settings and statement go in one packet. */
static enum lock_result execute(struct session *session, const char *statement, int count,
	const char *const *parameters, PGresult **result, struct deadline *deadline,
	struct failure *failure)
{
	PGconn *connection = session->connection;
	enum lock_result got = LOCK_GRANTED;

	*result = NULL;
	session->sent_at = clock_now();
	if ((!session->set_up && !send_settings(connection)) ||
		!send_statement(connection, statement, count, parameters))
		return broke(session, failure);
	if (!session->set_up)
		got = read_settings(session, deadline, failure);
	if (got == LOCK_GRANTED) {
		got = read_result(session, result, deadline);
		if (got == LOCK_FAILED || (got == LOCK_GRANTED && !*result))
			return broke(session, failure);
	}
	return got;
}

static bool is_missing(const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return state && (strcmp(state, "3F000") == 0 || strcmp(state, "42883") == 0 ||
				strcmp(state, "42P01") == 0);
}

/* The schema is one statement to the server: all of it, or nothing. Several clients may find it
 * missing at once. */
static enum lock_result install(
	struct session *session, struct deadline *deadline, struct failure *failure)
{
	PGresult *result;
	enum lock_result got = execute(session, sql_install, 0, NULL, &result, deadline, failure);
	bool done;

	if (got != LOCK_GRANTED)
		return got;
	done = PQresultStatus(result) == PGRES_COMMAND_OK;
	if (!done) {
		fail_statement(session, result, failure);
		if (failure->code == EXIT_REFUSED)
			failure_set(failure, EXIT_REFUSED,
				"%s; an administrator must run once what `dlock check` prints",
				failure->text);
	}
	PQclear(result);
	return done ? LOCK_GRANTED : LOCK_FAILED;
}

enum lock_result session_call(struct session *session, const char *statement, int count,
	const char *const *parameters, PGresult **result, struct deadline deadline,
	struct failure *failure)
{
	enum lock_result got = LOCK_GRANTED;

	*result = NULL;
	if (!session->connection)
		got = connect_to(session, &deadline, failure);
	if (got == LOCK_GRANTED)
		got = execute(session, statement, count, parameters, result, &deadline, failure);
	if (got == LOCK_GRANTED && is_missing(*result)) {
		PQclear(*result);
		*result = NULL;
		got = install(session, &deadline, failure);
		if (got == LOCK_GRANTED)
			got = execute(
				session, statement, count, parameters, result, &deadline, failure);
	}
	if (got != LOCK_GRANTED || PQresultStatus(*result) == PGRES_TUPLES_OK)
		return got;
	got = fail_statement(session, *result, failure);
	PQclear(*result);
	*result = NULL;
	return got;
}

/* --- Notifications, and the end ------------------------------------------------------------------
 */

enum lock_result session_listen(
	struct session *session, struct deadline deadline, PGnotify **notification)
{
	*notification = NULL;
	while (session->connection && PQstatus(session->connection) == CONNECTION_OK) {
		enum deadline_end end;

		*notification = PQnotifies(session->connection);
		if (*notification)
			return LOCK_GRANTED;
		end = deadline_wait(&deadline, PQsocket(session->connection), POLLIN);
		if (end != DEADLINE_READY)
			return end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
		if (!PQconsumeInput(session->connection))
			break;
	}
	session_close(session);
	return LOCK_GRANTED;
}

void session_close(struct session *session)
{
	PQfinish(session->connection);
	session->connection = NULL;
}

/* What PQfinish has to say goes nowhere. */
void session_leave(struct session *session)
{
	int fd = session_fd(session);
	int nowhere = fd < 0 ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);

	if (nowhere >= 0) {
		dup3(nowhere, fd, O_CLOEXEC);
		close(nowhere);
		session_close(session);
	}
	session->connection = NULL;
}

int session_fd(const struct session *session)
{
	return session->connection ? PQsocket(session->connection) : -1;
}
