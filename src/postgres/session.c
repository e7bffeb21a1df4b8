#include "postgres/session.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/server.h"
#include "postgres/sql_text.h"

/* --- What is sent and read -------------------------------------------------------------------- */

const char *write_number(char text[static NUMBER_SIZE], int64_t number)
{
	snprintf(text, NUMBER_SIZE, "%" PRId64, number);
	return text;
}

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

/* --- Failures --------------------------------------------------------------------------------- */

static enum exit_code code_of(const char *state, const char *text)
{
	static const struct {
		const char *state; /* how it begins */
		enum exit_code code;
	} codes[] = {{"28", EXIT_REFUSED}, {"42501", EXIT_REFUSED}, {"25006", EXIT_REFUSED},
		{"3D000", EXIT_CONFIG}, {"57P", EXIT_UNREACHABLE}, {"53", EXIT_UNREACHABLE},
		{"08", EXIT_UNREACHABLE}, {"55P03", EXIT_UNREACHABLE}};

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
static void find_state(const char *text, char state[static 6])
{
	char after = '\0';

	for (const char *at = text; (at = strstr(at, ":  ")) != NULL; at += 3)
		if (sscanf(at, ":  %5[0-9A-Z]%c", state, &after) == 2 && after == ':')
			return;
	state[0] = '\0';
}

/* No connection came about. The first line of what libpq says. */
static enum lock_result fail_connecting(struct session *session, struct failure *failure)
{
	const char *text = PQerrorMessage(session->connection);
	enum exit_code code;
	char state[6];

	find_state(text, state);
	code = code_of(state, text);
	failure_set(failure, code, "%s %s: %.*s",
		code == EXIT_UNREACHABLE ? "cannot reach" : "cannot use", session->server->text,
		(int)strcspn(text, "\n"), text);
	session_close(session);
	return LOCK_FAILED;
}

static enum lock_result fail_statement(
	struct session *session, const PGresult *result, struct failure *failure)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (!text)
		text = PQerrorMessage(session->connection);
	failure_set(failure, code_of(state ? state : "", text), "%s: %.*s", session->server->text,
		(int)strcspn(text, "\n"), text);
	return LOCK_FAILED;
}

static enum lock_result break_off(struct session *session, struct failure *failure)
{
	fail_statement(session, NULL, failure);
	failure->code = EXIT_UNREACHABLE;
	session_close(session);
	return LOCK_FAILED;
}

static enum lock_result give_up(
	struct session *session, enum deadline_end end, struct failure *failure)
{
	failure_set(failure, EXIT_UNREACHABLE, "no answer from %s", session->server->text);
	session_leave(session);
	return end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
}

/* --- Connecting ------------------------------------------------------------------------------- */

static void hear_nothing(void *context, const char *message)
{
	(void)context;
	(void)message;
}

static PGconn *begin(const struct server *server)
{
	/* What comes later goes before what came first. */
	const char *names[] = {
		"target_session_attrs", "fallback_application_name", "password", "dbname", NULL};
	const char *values[] = {"primary", "dlock", server->password, server->path, NULL};

	return PQconnectStartParams(names, values, 1);
}

enum lock_result session_connect(
	struct session *session, struct deadline deadline, struct failure *failure)
{
	PostgresPollingStatusType next = PGRES_POLLING_WRITING;

	if (session->connection)
		return LOCK_GRANTED;
	session->set_up = session->owes = false;
	session->connection = begin(session->server);
	PQsetErrorVerbosity(session->connection, PQERRORS_VERBOSE);
	PQsetNoticeProcessor(session->connection, hear_nothing, NULL);
	while (next != PGRES_POLLING_OK) {
		enum deadline_end end;

		if (PQstatus(session->connection) == CONNECTION_BAD)
			return fail_connecting(session, failure);
		end = deadline_wait(&deadline, PQsocket(session->connection),
			next == PGRES_POLLING_READING ? POLLIN : POLLOUT);
		if (end != DEADLINE_READY)
			return give_up(session, end, failure);
		next = PQconnectPoll(session->connection);
	}
	PQsetnonblocking(session->connection, 1);
	PQenterPipelineMode(session->connection);
	return LOCK_GRANTED;
}

/* --- Statements ------------------------------------------------------------------------------- */

static bool send(PGconn *connection, const char *statement, int count, const char *const *arguments)
{
	return PQsendQueryParams(connection, statement, count, NULL, arguments, NULL, NULL, 0) &&
	       PQpipelineSync(connection);
}

/* Until libpq has a result. */
static enum lock_result await_result(
	struct session *session, struct deadline *deadline, struct failure *failure)
{
	PGconn *connection = session->connection;
	int unsent;

	while ((unsent = PQflush(connection)) > 0 || (unsent == 0 && PQisBusy(connection))) {
		enum deadline_end end = deadline_wait(deadline, PQsocket(connection),
			(short)(unsent ? POLLIN | POLLOUT : POLLIN));

		if (end != DEADLINE_READY)
			return give_up(session, end, failure);
		if (!PQconsumeInput(connection))
			return break_off(session, failure);
	}
	return unsent < 0 ? break_off(session, failure) : LOCK_GRANTED;
}

/* Reads to the end of one statement. *result: its rows, or its error. */
static enum lock_result read_result(struct session *session, PGresult **result,
	struct deadline *deadline, struct failure *failure)
{
	enum lock_result got;

	*result = NULL;
	while ((got = await_result(session, deadline, failure)) == LOCK_GRANTED) {
		PGresult *one = PQgetResult(session->connection);

		if (PQresultStatus(one) == PGRES_PIPELINE_SYNC) {
			PQclear(one);
			return LOCK_GRANTED;
		}
		if (one) {
			PQclear(*result);
			*result = one;
		}
		if (PQstatus(session->connection) != CONNECTION_OK) {
			got = break_off(session, failure);
			break;
		}
	}
	PQclear(*result);
	*result = NULL;
	return got;
}

/* A session of a pooler is now one of the server's and then another. */
static enum lock_result read_settings(
	struct session *session, struct deadline *deadline, struct failure *failure)
{
	PGresult *result;
	enum lock_result got = read_result(session, &result, deadline, failure);

	if (got != LOCK_GRANTED)
		return got;
	if (PQresultStatus(result) != PGRES_TUPLES_OK) {
		fail_statement(session, result, failure);
	} else if (number_at(result, 0, "pid") != PQbackendPID(session->connection)) {
		failure_set(failure, EXIT_CONFIG,
			"%s is a pooler: sessions behind it are not ours alone; give dlock the "
			"server itself",
			session->server->text);
	} else {
		session->set_up = true;
	}
	PQclear(result);
	if (session->set_up)
		return LOCK_GRANTED;
	session_close(session);
	return LOCK_FAILED;
}

/* One try. Settings and statement go in one packet. */
static enum lock_result execute(struct session *session, const char *statement, int count,
	const char *const *arguments, PGresult **result, struct deadline *deadline,
	struct failure *failure)
{
	PGconn *connection = session->connection;
	bool goes_first = !session->set_up && !session->owes && statement == sql_take;
	bool known = session->set_up || session->owes || goes_first;
	enum lock_result got = LOCK_GRANTED;

	session->sent_at = clock_now();
	if ((!known && !send(connection, sql_settings, 0, NULL)) ||
		!send(connection, statement, count, arguments) ||
		(goes_first && !send(connection, sql_settings, 0, NULL)))
		return break_off(session, failure);
	if (!session->set_up && !goes_first)
		got = read_settings(session, deadline, failure);
	session->owes = goes_first;
	return got == LOCK_GRANTED ? read_result(session, result, deadline, failure) : got;
}

/* Schema, function, or table. */
static bool is_missing(const PGresult *result)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return state && strstr("3F000 42883 42P01", state);
}

/* The schema is one statement to the server: all of it, or nothing. Several clients may find it
 * missing at once. */
static enum lock_result install(
	struct session *session, struct deadline *deadline, struct failure *failure)
{
	PGresult *result = NULL;
	enum lock_result got = execute(session, sql_install, 0, NULL, &result, deadline, failure);

	if (got == LOCK_GRANTED && PQresultStatus(result) != PGRES_COMMAND_OK) {
		got = fail_statement(session, result, failure);
		if (failure->code == EXIT_REFUSED)
			failure_set(failure, EXIT_REFUSED,
				"%s; an administrator must run once what `dlock check` prints",
				failure->text);
	}
	PQclear(result);
	return got;
}

enum lock_result session_call(struct session *session, const char *statement, int count,
	const char *const *arguments, PGresult **result, struct deadline deadline,
	struct failure *failure)
{
	enum lock_result got = session_connect(session, deadline, failure);

	*result = NULL;
	if (got == LOCK_GRANTED)
		got = execute(session, statement, count, arguments, result, &deadline, failure);
	if (got == LOCK_GRANTED && is_missing(*result)) {
		PQclear(*result);
		*result = NULL;
		got = install(session, &deadline, failure);
		if (got == LOCK_GRANTED)
			got = execute(
				session, statement, count, arguments, result, &deadline, failure);
	}
	if (got != LOCK_GRANTED || PQresultStatus(*result) == PGRES_TUPLES_OK)
		return got;
	got = fail_statement(session, *result, failure);
	PQclear(*result);
	*result = NULL;
	return got;
}

/* --- Notifications, and the end --------------------------------------------------------------- */

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
	int fd = session->connection ? PQsocket(session->connection) : -1;
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
	return session->connection && !session->owes ? PQsocket(session->connection) : -1;
}
