/* The questions of `dlock status` and `dlock check`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/server.h"
#include "postgres/postgres_lock.h"

#define PATIENCE (5 * NANOS_PER_SEC)

/* A row for each holder and waiter of each lock, those of one lock behind each other; or one
 * without an owner. All of one moment. */
static const char statement[] =
	"SELECT l.name, o.kind, o.mode, o.owner, o.priority, o.ms, o.ttl_ms, o.since, o.detached, "
	"o.token, o.held, "
	"l.fence, l.last_run, l.last_success, dlock.now_us() AS now, l.granted, l.contended, "
	"l.timeouts, l.lost, l.waited_us, l.held_us, "
	"dlock.has_advisory(advisory, NULL) AS is_foreign FROM dlock.lock l "
	"CROSS JOIN dlock.advisory_key($1, substr(l.name, length($2) + 1)) AS advisory "
	"LEFT JOIN LATERAL dlock.owners_2(l.name) o ON true WHERE starts_with(l.name, $2) "
	"AND ($3 = '' OR l.name = $2 || $3) "
	"ORDER BY l.name, o.kind, o.place";

static struct lock_view_owner read_owner(const PGresult *result, int row)
{
	struct lock_view_owner owner = {.mode = mode_at(result, row, "mode"),
		.priority = (int)number_at(result, row, "priority"),
		.ms = number_at(result, row, "ms"),
		.ttl_ms = number_at(result, row, "ttl_ms"),
		.since_us = number_at(result, row, "since"),
		.detached = flag_at(result, row, "detached"),
		.token = text_at(result, row, "token"),
		.held = text_at(result, row, "held")};

	if (*owner.token == '\0')
		owner.token = NULL;

	owner_read(&owner.owner, text_at(result, row, "owner"));
	return owner;
}

/* Shows the lock that begins at this row; returns where the next one begins. owners has room for
 * all. */
static int show_lock(const struct lock_lister *lister, const PGresult *result, int row,
	struct lock_view_owner *owners)
{
	const char *key = text_at(result, row, "name");
	struct lock_view view = {.name = key + strlen(lister->query.prefix),
		.key = key,
		.fence = (uint64_t)number_at(result, row, "fence"),
		.ttl_ms = -1,
		.foreign = flag_at(result, row, "is_foreign"),
		.holders = owners,
		.counters = {number_at(result, row, "granted"), number_at(result, row, "contended"),
			number_at(result, row, "timeouts"), number_at(result, row, "lost"),
			number_at(result, row, "waited_us"), number_at(result, row, "held_us")}};

	run_read(&view.last_run, text_at(result, row, "last_run"), number_at(result, row, "now"));
	run_read(&view.last_success, text_at(result, row, "last_success"),
		number_at(result, row, "now"));
	for (; row < PQntuples(result) && strcmp(text_at(result, row, "name"), view.key) == 0;
		row++) {
		char kind = *text_at(result, row, "kind"); /* '\0': nobody */

		*owners++ = read_owner(result, row);
		view.holder_count += kind == 'h';
		view.waiter_count += kind == 'w';
	}
	view.waiters = view.holders + view.holder_count;
	if (view.holder_count > 0) {
		view.mode = view.waiters[-1].mode;
		view.ttl_ms = view.waiters[-1].ttl_ms;
		view.foreign = false;
	}
	if (lock_query_wants(&lister->query, view.name))
		lock_lister_show(lister, &view, true);
	return row;
}

static void list_close(void *state)
{
	postgres_session_close(state);
	free(state);
}

bool postgres_list(struct lock_lister *lister, struct failure *failure)
{
	struct postgres_session *session =
		lock_lister_state(lister, sizeof(*session), list_close, failure);
	struct lock_answer answer = {0};
	struct lock_view_owner *owners;
	const struct lock_query *query = &lister->query;
	PGresult *result;

	if (!session)
		return false;
	session->server = lister->server;
	result = postgres_session_call(session, statement,
		ARGUMENTS(lister->server->setting, query->prefix,
			query->exact ? query->patterns[0] : ""),
		lock_lister_limit(lister), &answer);
	owners = calloc((size_t)PQntuples(result) + 1, sizeof(*owners));
	*failure = answer.failure;
	for (int row = 0; owners && row < PQntuples(result);)
		row = show_lock(lister, result, row, owners);
	PQclear(result);
	free(owners);
	return answer.result == LOCK_GRANTED &&
	       (owners || failure_set(failure, EXIT_SYSTEM, "out of memory"));
}

static const char facts[] = "SELECT current_setting('server_version') AS version, "
			    "current_setting('fsync') = 'on' AS is_safe, count(*) FROM dlock.lock";

/* The lines that an administrator has to run for us: the schema, if it is not whole, and the rights
 * to it. */
static const char rights[] =
	"SELECT CASE WHEN EXISTS (SELECT FROM pg_proc WHERE proname = 'acquire_3' AND "
	"pronamespace::regnamespace::text = 'dlock') THEN '' ELSE $1 END || "
	"format('GRANT USAGE ON SCHEMA dlock TO %1$I;\n"
	"GRANT ALL ON ALL TABLES IN SCHEMA dlock TO %1$I;\n"
	"GRANT ALL ON ALL SEQUENCES IN SCHEMA dlock TO %1$I;\n"
	"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dlock TO %1$I;\n', current_user) AS script";

bool postgres_check(const struct server *server, const struct lock_request *request,
	lock_finding_taker *take, void *context, struct failure *failure)
{
	struct postgres_session session = {.server = server};
	struct lock_finding finding = {.server = server->text, .subject = "server"};
	struct deadline patience = deadline_alone(clock_now() + PATIENCE);
	struct lock_answer answer = {0}, unheard = {0};
	PGresult *found = postgres_session_call(&session, facts, 0, NULL, patience, &answer),
		 *needed = NULL;
	char text[60], name[TRIAL_NAME];

	(void)failure;
	snprintf(text, sizeof(text), "PostgreSQL %.40s", text_at(found, 0, "version"));
	finding.found = found ? text : answer.failure.text;
	if (!found) {
		finding.verdict = LOCK_UNFIT;
		finding.code = answer.failure.code;
		if (finding.code == EXIT_REFUSED && session.connection)
			needed = postgres_session_call(
				&session, rights, ARGUMENTS(sql_install), patience, &unheard);
		finding.script = needed ? text_at(needed, 0, "script") : NULL;
	} else if (!flag_at(found, 0, "is_safe")) {
		finding.verdict = LOCK_DOUBTFUL;
		finding.code = EXIT_BUSY;
		finding.found = "fsync is off: a crash may lose grants";
		finding.advice = "fsync = on";
	}
	take(&finding, context);
	if (found) {
		trial_report(server, request, trial_name(name), take, context);
		PQclear(postgres_session_call(&session,
			"DELETE FROM dlock.lock WHERE name = $1 || $2 RETURNING name",
			ARGUMENTS(request->prefix, name), deadline_alone(clock_now() + PATIENCE),
			&unheard));
	}
	PQclear(found);
	PQclear(needed);
	postgres_session_close(&session);
	return true;
}
