#include "postgres/postgres_session.h"

#include <bsd/string.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "lock/service.h"
#include "net/password.h"
#include "net/resolve.h"
#include "net/server.h"

#define NOT_READY_PAUSE (100 * NANOS_PER_MS)
#define PATIENCE_MOST   5000 /* ms, as in sql/settings.sql */
#define LOOKUP_MOST     NANOS_PER_SEC
#define STATE           "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

const char *text_at(const PGresult *result, int row, const char *column)
{
	const char *text = PQgetvalue(result, row, PQfnumber(result, column));

	return text ? text : "";
}

int64_t number_at(const PGresult *result, int row, const char *column)
{
	return strtoll(text_at(result, row, column), NULL, 10);
}

bool flag_at(const PGresult *result, int row, const char *column)
{
	return *text_at(result, row, column) == 't';
}

enum lock_mode mode_at(const PGresult *result, int row, const char *column)
{
	char mode = *text_at(result, row, column);

	return mode == 's' ? LOCK_SHARED : mode == 'p' ? LOCK_PERMITS : LOCK_EXCLUSIVE;
}

static enum exit_code code_of(const char *state, const char *text)
{
	static const struct {
		const char *state; /* how it begins */
		enum exit_code code;
	} codes[] = {{"28", EXIT_REFUSED}, {"42501", EXIT_REFUSED}, {"25006", EXIT_REFUSED},
		{"3D000", EXIT_CONFIG}, {"57P", EXIT_UNREACHABLE}, {"53", EXIT_UNREACHABLE},
		{"08", EXIT_UNREACHABLE}, {"55P03", EXIT_UNREACHABLE}, {"40", EXIT_UNREACHABLE}};

	if (strstr(text, "no password supplied") || strstr(text, "certificate"))
		return EXIT_REFUSED;
	if (strstr(text, "invalid port number"))
		return EXIT_CONFIG;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (strncmp(state, codes[i].state, strlen(codes[i].state)) == 0)
			return codes[i].code;
	return *state ? EXIT_PROTOCOL : EXIT_UNREACHABLE;
}

/* With verbosity SQLSTATE stands behind the severity: "FATAL:  28P01: password ...". "": none. */
static const char *find_state(const char *text)
{
	while ((text = strstr(text, ":  ")) && (strspn(text += 3, STATE) != 5 || text[5] != ':'))
		continue;
	return text ? text : "";
}

/* The server starts, or ends; or it has too many clients. */
static bool is_passing(const char *state)
{
	return strncmp(state, "57P03", 5) == 0 || strncmp(state, "53300", 5) == 0;
}

/* The first line of what the server says. */
static bool fail_statement(
	const struct postgres_session *session, const PGresult *result, struct failure *failure)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	bool is_right = state && strcmp(state, "42501") == 0;

	if (!text)
		text = PQresultErrorMessage(result);
	return failure_set(failure, code_of(state ? state : "", text), "%s: %.*s%s",
		session->server->text, (int)strcspn(text, "\n"), text,
		is_right ? "; an administrator must run once what `dlock check` prints" : "");
}

/* There is no connection, or none any more; the first line of what libpq says. */
static bool break_off(struct postgres_session *session, struct failure *failure)
{
	const char *text = PQerrorMessage(session->connection), *how = "";
	enum exit_code code = EXIT_UNREACHABLE;

	if (session->pid[0] == '\0') {
		code = code_of(find_state(text), text);
		how = code == EXIT_UNREACHABLE ? "cannot reach " : "cannot use ";
		session->not_ready = is_passing(find_state(text));
	}
	failure_set(failure, code, "%s%s: %.*s", how, session->server->text,
		(int)strcspn(text, "\n"), text);
	failure->passes = session->not_ready;
	postgres_session_close(session);
	return false;
}

/* Waits for the socket. An answer after the deadline is not ours any more. */
static bool await(struct postgres_session *session, int events, struct deadline *deadline,
	struct lock_answer *answer)
{
	enum deadline_end end =
		deadline_wait(deadline, PQsocket(session->connection), (short)events);

	if (end == DEADLINE_READY)
		return true;
	failure_set(&answer->failure, EXIT_UNREACHABLE, "no answer from %s", session->server->text);
	answer->result = end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
	postgres_session_close(session);
	return false;
}

static void hear_nothing(void *context, const char *message)
{
	(void)context;
	(void)message;
}

/* A name that worked is not forgotten because the name server is away: libpq would wait for that,
 * whatever the deadline is. If there is no such name any more, another one in the URL may do, every
 * second time. */
static bool goes_by_address(struct postgres_session *session, struct deadline deadline)
{
	struct addresses addresses;
	struct failure unheard;
	struct lookup *lookup = NULL;
	enum io_result found = IO_OK;

	if (session->address[0] != '\0')
		found = resolve_host(&lookup, session->host, atoi(session->port),
			deadline_within(deadline, LOOKUP_MOST), &addresses, &unheard);
	resolve_abandon(lookup);
	session->by_name = found == IO_OK || (found == IO_FAILED && !session->by_name);
	return !session->by_name;
}

static void remember_address(struct postgres_session *session)
{
	strlcpy(session->host, PQhost(session->connection), sizeof(session->host));
	strlcpy(session->address, PQhostaddr(session->connection), sizeof(session->address));
	strlcpy(session->port, PQport(session->connection), sizeof(session->port));
}

static bool connect_once(
	struct postgres_session *session, struct deadline deadline, struct lock_answer *answer)
{
	bool known = goes_by_address(session, deadline);
	/* A later parameter overrides an earlier one; NULL ends the list. */
	const char *names[] = {"target_session_attrs", "fallback_application_name", "password",
		"dbname", "client_encoding", known ? "host" : NULL, "hostaddr", "port", NULL};
	char *password = server_password(session->server);
	const char *values[] = {"primary", "dlock", password, session->server->path, "UTF8",
		session->host, session->address, session->port, NULL};
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;

	session->pid[0] = '\0';
	session->not_ready = false;
	session->connection = PQconnectStartParams(names, values, 1);
	password_forget(password);
	PQsetErrorVerbosity(session->connection, PQERRORS_VERBOSE);
	PQsetNoticeProcessor(session->connection, hear_nothing, NULL);
	while (next != PGRES_POLLING_OK) {
		if (PQstatus(session->connection) == CONNECTION_BAD)
			return break_off(session, &answer->failure);
		if (!await(session, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, &deadline,
			    answer))
			return false;
		next = PQconnectPoll(session->connection);
	}
	PQsetnonblocking(session->connection, 1);
	PQenterPipelineMode(session->connection);
	number_write(session->pid, PQbackendPID(session->connection));
	remember_address(session);
	session->is_set = session->is_known = false;
	return true;
}

/* A server that starts, or has no session to spare, may have one in a moment. */
static bool is_connected(
	struct postgres_session *session, struct deadline deadline, struct lock_answer *answer)
{
	struct failure before = {0};

	while (!session->connection && !connect_once(session, deadline, answer)) {
		/* A try that is cut off says less than the one before. */
		if (before.passes && answer->result == LOCK_TIMEOUT)
			answer->failure = before;
		/* A server that is gone after that may come back: it is being restarted. */
		answer->failure.passes |= before.passes;
		if (!session->not_ready)
			return false;
		before = answer->failure;
		if (!deadline_pause(deadline, NOT_READY_PAUSE + clock_jitter(NOT_READY_PAUSE)))
			answer->result = LOCK_CANCELLED;
		if (answer->result == LOCK_CANCELLED || clock_now() >= deadline.until)
			return false;
	}
	return true;
}

static bool send_statement(struct postgres_session *session, const char *statement, int count,
	const char *const *arguments)
{
	return PQsendQueryParams(
		       session->connection, statement, count, NULL, arguments, NULL, NULL, 0) &&
	       PQpipelineSync(session->connection);
}

/* Until libpq has a result. */
static bool await_result(
	struct postgres_session *session, struct deadline *deadline, struct lock_answer *answer)
{
	PGconn *connection = session->connection;
	int unsent;

	while ((unsent = PQflush(connection)) > 0 || (unsent == 0 && PQisBusy(connection))) {
		if (!await(session, unsent ? POLLIN | POLLOUT : POLLIN, deadline, answer))
			return false;
		if (!PQconsumeInput(connection))
			return break_off(session, &answer->failure);
	}
	return unsent == 0 || break_off(session, &answer->failure);
}

/* Reads to the end of one statement. Returns its rows, or its error. */
static PGresult *read_result(
	struct postgres_session *session, struct deadline *deadline, struct lock_answer *answer)
{
	PGresult *result = NULL;

	while (await_result(session, deadline, answer)) {
		PGresult *next = PQgetResult(session->connection);
		bool is_end = PQresultStatus(next) == PGRES_PIPELINE_SYNC;

		if (is_end && result) {
			PQclear(next);
			return result;
		}
		if (next) {
			PQclear(result);
			result = next;
		}
		if (is_end || PQstatus(session->connection) != CONNECTION_OK) {
			break_off(session, &answer->failure);
			break;
		}
	}
	PQclear(result);
	return NULL;
}

/* The answer to sql_settings or sql_format. A session of a pooler is now one of the server's and
 * then another. */
static bool read_settings(
	struct postgres_session *session, struct deadline *deadline, struct lock_answer *answer)
{
	PGresult *result = read_result(session, deadline, answer);
	bool good = false;

	if (result && session->connection && PQresultStatus(result) != PGRES_TUPLES_OK)
		fail_statement(session, result, &answer->failure);
	else if (result && strcmp(text_at(result, 0, "pid"), session->pid) != 0)
		failure_set(&answer->failure, EXIT_CONFIG,
			"%s is a pooler: its sessions change; give dlock the server itself",
			session->server->text);
	else if (result && number_at(result, 0, "format") > LOCK_FORMAT)
		lock_fail_format(
			&answer->failure, session->server->text, number_at(result, 0, "format"));
	else
		good = result && session->connection;
	PQclear(result);
	if (!good)
		postgres_session_close(session);
	return good;
}

/* In the transaction of what follows: while the row is locked, or the table, a server goes on
 * waiting though the client is gone, and would take the lock for nobody. */
static bool send_patience(struct postgres_session *session, const struct deadline *deadline)
{
	int64_t ms = (deadline->until - clock_now()) / NANOS_PER_MS + 1;
	const char *argument = NUMBER(number_within(ms, 1, PATIENCE_MOST));

	return PQsendQueryParams(session->connection,
		"SELECT pg_catalog.set_config('lock_timeout', $1, true)", 1, NULL, &argument, NULL,
		NULL, 0);
}

/* Two things are to be known before the session changes anything: its process, and the format. */
static bool settle(
	struct postgres_session *session, struct deadline *deadline, struct lock_answer *answer)
{
	bool is_new = !session->is_set;

	if ((is_new && !send_statement(session, sql_settings, 0, NULL)) ||
		!send_statement(session, sql_format, 0, NULL))
		return break_off(session, &answer->failure);
	session->is_set = !is_new || read_settings(session, deadline, answer);
	session->is_known = session->is_set && read_settings(session, deadline, answer);
	return session->is_known;
}

/* One try. Returns its rows, or its error. */
static PGresult *execute(struct postgres_session *session, const char *statement, int count,
	const char *const *arguments, struct deadline *deadline, struct lock_answer *answer)
{
	/* sql_take looks at both itself, and takes the lock only if they are right. */
	bool takes = statement == sql_take, is_new = takes && !session->is_set;
	PGresult *result = NULL;

	if (!takes && !session->is_known && !settle(session, deadline, answer))
		return NULL;
	answer->asked_at = clock_now();
	if ((is_new && !send_statement(session, sql_settings, 0, NULL)) ||
		(session->is_take && !send_patience(session, deadline)) ||
		!send_statement(session, statement, count, arguments)) {
		break_off(session, &answer->failure);
		return NULL;
	}
	session->is_set = !is_new || read_settings(session, deadline, answer);
	if (session->is_set)
		result = read_result(session, deadline, answer);
	session->is_known |= takes && PQntuples(result) > 0;
	return result;
}

PGresult *postgres_session_call(struct postgres_session *session, const char *statement, int count,
	const char *const *arguments, struct deadline deadline, struct lock_answer *answer)
{
	PGresult *result = NULL;
	const char *state;

	answer->result = LOCK_FAILED;
	if (is_connected(session, deadline, answer))
		result = execute(session, statement, count, arguments, &deadline, answer);
	state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	/* No schema, function, table, or column: several clients may find that at once
	 * (sql/embed.sh). */
	if (state && strstr("3F000 42883 42P01 42703", state)) {
		PQclear(result);
		result = execute(session, sql_install, 0, NULL, &deadline, answer);
		if (PQresultStatus(result) == PGRES_COMMAND_OK) {
			PQclear(result);
			result = execute(session, statement, count, arguments, &deadline, answer);
		}
	}
	answer->granted_at = clock_now();
	if (PQresultStatus(result) == PGRES_TUPLES_OK) {
		answer->result = LOCK_GRANTED;
		return result;
	}
	if (result)
		fail_statement(session, result, &answer->failure);
	PQclear(result);
	return NULL;
}

enum lock_result postgres_session_listen(
	struct postgres_session *session, struct deadline deadline, int64_t *number)
{
	PGconn *connection = session->connection;
	PGnotify *heard = NULL;

	*number = -1;
	while (PQstatus(connection) == CONNECTION_OK && !(heard = PQnotifies(connection))) {
		enum deadline_end end = deadline_wait(&deadline, PQsocket(connection), POLLIN);

		if (end != DEADLINE_READY)
			return end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
		if (!PQconsumeInput(connection))
			break;
	}
	if (heard)
		*number = number_within(strtoll(heard->extra, NULL, 10), 0, INT32_MAX);
	else
		postgres_session_close(session);
	PQfreemem(heard);
	return LOCK_GRANTED;
}

void postgres_session_close(struct postgres_session *session)
{
	PQfinish(session->connection);
	session->connection = NULL;
}
