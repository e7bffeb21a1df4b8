/* What `dlock status` and `dlock check` ask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/lock_check.h"
#include "lock/trial.h"
#include "net/server.h"
#include "postgres/postgres_lock.h"
#include "postgres/sql_text.h"

#define PATIENCE (5 * NANOS_PER_SEC)

/* --- Status --------------------------------------------------------------------------------------
 */

struct listing {
	struct session session;
	struct lock_query query;
};

/* A row for each holder and waiter of each lock, those of one lock behind each other; and one for
 * the lock itself. All of one moment. */
static const char statement[] =
	"SELECT l.name, o.kind, o.mode, o.owner, o.priority, o.ms, o.ttl_ms, o.since, o.detached, "
	"l.fence, l.granted, l.contended, l.timeouts, l.lost, l.waited_us, l.held_us, "
	"dlock.is_foreign(dlock.advisory_key($1, substr(l.name, length($2) + 1))) AS is_foreign "
	"FROM dlock.lock l, dlock.owners(l.name) o WHERE starts_with(l.name, $2) "
	"ORDER BY l.name, o.kind, o.place";

static const char *cell(const PGresult *result, int row, const char *column)
{
	return PQgetvalue(result, row, PQfnumber(result, column));
}

static int64_t number(const PGresult *result, int row, const char *column)
{
	return strtoll(cell(result, row, column), NULL, 10);
}

static enum lock_mode mode_of(const char *letter)
{
	return *letter == 's' ? LOCK_SHARED : *letter == 'p' ? LOCK_PERMITS : LOCK_EXCLUSIVE;
}

static struct lock_view_owner read_owner(const PGresult *result, int row)
{
	struct lock_view_owner owner = {.mode = mode_of(cell(result, row, "mode")),
		.priority = (int)number(result, row, "priority"),
		.ms = number(result, row, "ms"),
		.ttl_ms = number(result, row, "ttl_ms"),
		.since_us = number(result, row, "since"),
		.detached = *cell(result, row, "detached") == 't'};

	owner_read(&owner.owner, cell(result, row, "owner"));
	return owner;
}

static struct lock_view read_lock(const PGresult *result, int row)
{
	return (struct lock_view){.key = cell(result, row, "name"),
		.fence = (uint64_t)number(result, row, "fence"),
		.ttl_ms = -1,
		.counters = {number(result, row, "granted"), number(result, row, "contended"),
			number(result, row, "timeouts"), number(result, row, "lost"),
			number(result, row, "waited_us"), number(result, row, "held_us")}};
}

/* Shows the lock that begins at this row; returns where the next one begins. owners has room for
 * all. */
static int show_lock(const struct listing *l, const PGresult *result, int row,
	struct lock_view_owner *owners, void (*show)(const struct lock_view *view, void *context),
	void *context)
{
	struct lock_view view = read_lock(result, row);
	size_t count = 0;
	int next = row;

	for (; next < PQntuples(result) && strcmp(cell(result, next, "name"), view.key) == 0;
		next++) {
		const char *kind = cell(result, next, "kind");

		if (*kind == 'l')
			continue;
		owners[count] = read_owner(result, next);
		view.holder_count += *kind == 'h';
		view.waiter_count += *kind == 'w';
		if (*kind == 'h') {
			view.mode = owners[count].mode;
			view.ttl_ms = owners[count].ttl_ms;
		}
		count++;
	}
	view.name = view.key + strlen(l->query.prefix);
	view.holders = owners;
	view.waiters = owners + view.holder_count;
	view.foreign = view.holder_count == 0 && *cell(result, row, "is_foreign") == 't';
	if (lock_query_wants(&l->query, view.name) &&
		(view.foreign || count > 0 || l->query.idle_too))
		show(&view, context);
	return next;
}

static bool list_look(void *state, void (*show)(const struct lock_view *view, void *context),
	void *context, struct deadline deadline, struct failure *failure)
{
	struct listing *l = state;
	const char *parameters[] = {l->session.server->setting, l->query.prefix};
	struct lock_view_owner *owners;
	PGresult *result = NULL;

	switch (session_call(&l->session, statement, 2, parameters, &result, deadline, failure)) {
	case LOCK_GRANTED:
		break;
	case LOCK_TIMEOUT:
		failure_set(
			failure, EXIT_UNREACHABLE, "no answer from %s", l->session.server->text);
		return false;
	default:
		return false;
	}
	owners = calloc((size_t)PQntuples(result) + 1, sizeof(*owners));
	if (!owners)
		failure_set(failure, EXIT_SYSTEM, "out of memory");
	for (int row = 0; owners && row < PQntuples(result);)
		row = show_lock(l, result, row, owners, show, context);
	PQclear(result);
	free(owners);
	return owners != NULL;
}

static void *list_open(
	const struct server *server, const struct lock_query *query, struct failure *failure)
{
	struct listing *l = calloc(1, sizeof(*l));

	if (!l) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	l->session.server = server;
	l->query = *query;
	return l;
}

static void list_close(void *state)
{
	session_close(&((struct listing *)state)->session);
	free(state);
}

const struct lock_list_ops postgres_list_ops = {list_open, list_look, list_close};

/* --- dlock check ---------------------------------------------------------------------------------
 */

/* Leaves nothing of the trial's lock. */
static void remove_trial(struct session *session, const char *prefix, const char *name)
{
	const char *parameters[] = {prefix, name};
	struct failure unheard;
	PGresult *result = NULL;

	session_call(session,
		"WITH gone AS (DELETE FROM dlock.lock WHERE name = $1 || $2 RETURNING 1) "
		"SELECT count(*) FROM gone",
		2, parameters, &result, deadline_alone(clock_now() + PATIENCE), &unheard);
	PQclear(result);
}

static struct lock_finding look_at_server(
	struct session *session, char text[static 200], struct failure *failure)
{
	struct lock_finding finding = {.server = session->server->text, .subject = "server"};
	PGresult *result = NULL;
	enum lock_result got = session_call(session,
		"SELECT current_setting('server_version'), current_setting('fsync'), "
		"current_setting('synchronous_standby_names'), count(*) FROM dlock.lock",
		0, NULL, &result, deadline_alone(clock_now() + PATIENCE), failure);

	if (got != LOCK_GRANTED) {
		if (got != LOCK_FAILED)
			failure_set(failure, EXIT_UNREACHABLE, "no answer");
		finding.verdict = LOCK_UNFIT;
		finding.code = failure->code;
		finding.found = failure->text;
		if (failure->code == EXIT_REFUSED)
			finding.advice =
				"an administrator: GRANT CREATE ON DATABASE ... TO ..., or run "
				"dlock once; then GRANT USAGE ON SCHEMA dlock, and ALL ON ALL "
				"TABLES and SEQUENCES IN SCHEMA dlock";
		return finding;
	}
	snprintf(text, 200, "PostgreSQL %.40s", PQgetvalue(result, 0, 0));
	finding.found = text;
	if (strcmp(PQgetvalue(result, 0, 1), "on") != 0) {
		finding.verdict = LOCK_DOUBTFUL;
		finding.code = EXIT_BUSY;
		finding.found = "fsync is off: a crash may lose grants";
		finding.advice = "fsync = on";
	}
	PQclear(result);
	return finding;
}

bool postgres_check(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure)
{
	struct session session = {.server = server};
	char text[200], name[TRIAL_NAME];
	struct lock_finding finding = look_at_server(&session, text, failure);

	take(&finding, context);
	if (finding.verdict != LOCK_UNFIT) {
		trial_report(server, request, trial_name(name), take, context);
		remove_trial(&session, request->prefix, name);
	}
	session_close(&session);
	return true;
}
