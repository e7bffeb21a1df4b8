/* What `dlock status` and `dlock check` ask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/lock_check.h"
#include "lock/trial.h"
#include "net/server.h"
#include "postgres/postgres_lock.h"

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

static enum lock_mode mode_of(const char *letter)
{
	return *letter == 's' ? LOCK_SHARED : *letter == 'p' ? LOCK_PERMITS : LOCK_EXCLUSIVE;
}

static struct lock_view_owner read_owner(const PGresult *result, int row)
{
	struct lock_view_owner owner = {.mode = mode_of(text_at(result, row, "mode")),
		.priority = (int)number_at(result, row, "priority"),
		.ms = number_at(result, row, "ms"),
		.ttl_ms = number_at(result, row, "ttl_ms"),
		.since_us = number_at(result, row, "since"),
		.detached = flag_at(result, row, "detached")};

	owner_read(&owner.owner, text_at(result, row, "owner"));
	return owner;
}

static struct lock_view read_lock(const PGresult *result, int row, size_t prefix)
{
	const char *key = text_at(result, row, "name");

	return (struct lock_view){.name = key + prefix,
		.key = key,
		.fence = (uint64_t)number_at(result, row, "fence"),
		.ttl_ms = -1,
		.foreign = flag_at(result, row, "is_foreign"),
		.counters = {number_at(result, row, "granted"), number_at(result, row, "contended"),
			number_at(result, row, "timeouts"), number_at(result, row, "lost"),
			number_at(result, row, "waited_us"), number_at(result, row, "held_us")}};
}

/* Shows the lock that begins at this row; returns where the next one begins. owners has room for
 * all. */
static int show_lock(const struct listing *l, const PGresult *result, int row,
	struct lock_view_owner *owners, void (*show)(const struct lock_view *view, void *context),
	void *context)
{
	struct lock_view view = read_lock(result, row, strlen(l->query.prefix));

	view.holders = owners;
	for (; row < PQntuples(result) && strcmp(text_at(result, row, "name"), view.key) == 0;
		row++) {
		char kind = *text_at(result, row, "kind");

		if (kind != 'l')
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
	if (lock_query_wants(&l->query, view.name) &&
		(view.foreign || view.holder_count + view.waiter_count > 0 || l->query.idle_too))
		show(&view, context);
	return row;
}

static bool list_look(void *state, void (*show)(const struct lock_view *view, void *context),
	void *context, struct deadline deadline, struct failure *failure)
{
	struct listing *l = state;
	struct lock_view_owner *owners;
	PGresult *result;

	if (session_call(&l->session, statement,
		    ARGUMENTS(l->session.server->setting, l->query.prefix), &result, deadline,
		    failure) != LOCK_GRANTED)
		return false;
	owners = calloc((size_t)PQntuples(result) + 1, sizeof(*owners));
	for (int row = 0; owners && row < PQntuples(result);)
		row = show_lock(l, result, row, owners, show, context);
	PQclear(result);
	free(owners);
	return owners || failure_set(failure, EXIT_SYSTEM, "out of memory");
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
	struct failure unheard;
	PGresult *result;

	session_call(session,
		"WITH gone AS (DELETE FROM dlock.lock WHERE name = $1 || $2 RETURNING 1) "
		"SELECT count(*) FROM gone",
		ARGUMENTS(prefix, name), &result, deadline_alone(clock_now() + PATIENCE), &unheard);
	PQclear(result);
}

static void look_at_server(struct session *session, struct lock_finding *finding,
	char text[static 200], struct failure *failure)
{
	PGresult *result;

	if (session_call(session,
		    "SELECT current_setting('server_version') AS version, "
		    "current_setting('fsync') = 'on' AS is_safe, count(*) FROM dlock.lock",
		    0, NULL, &result, deadline_alone(clock_now() + PATIENCE),
		    failure) != LOCK_GRANTED) {
		finding->verdict = LOCK_UNFIT;
		finding->code = failure->code;
		finding->found = failure->text;
		if (failure->code == EXIT_REFUSED)
			finding->advice =
				"an administrator: GRANT CREATE ON DATABASE ... TO ..., or run "
				"dlock once; then GRANT USAGE ON SCHEMA dlock, and ALL ON ALL "
				"TABLES and SEQUENCES IN SCHEMA dlock";
		return;
	}
	snprintf(text, 200, "PostgreSQL %.40s", text_at(result, 0, "version"));
	finding->found = text;
	if (!flag_at(result, 0, "is_safe")) {
		finding->verdict = LOCK_DOUBTFUL;
		finding->code = EXIT_BUSY;
		finding->found = "fsync is off: a crash may lose grants";
		finding->advice = "fsync = on";
	}
	PQclear(result);
}

bool postgres_check(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure)
{
	struct session session = {.server = server};
	char text[200], name[TRIAL_NAME];
	struct lock_finding finding = {.server = server->text, .subject = "server"};

	look_at_server(&session, &finding, text, failure);
	take(&finding, context);
	if (finding.verdict != LOCK_UNFIT) {
		trial_report(server, request, trial_name(name), take, context);
		remove_trial(&session, request->prefix, name);
	}
	session_close(&session);
	return true;
}
