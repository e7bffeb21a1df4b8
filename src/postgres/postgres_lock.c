/* Taking, renewing, releasing and breaking a lock, and waiting for it. */
#include "postgres/postgres_lock.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/token.h"
#include "net/server.h"

#define LOOK_AFTER  (5 * NANOS_PER_MS)  /* an expiry, so that it is surely past */
#define RANK_AFTER  (50 * NANOS_PER_MS) /* the time that each waiter ahead gets to do so first */
#define FOREIGN_ASK NANOS_PER_SEC       /* an advisory lock's end is told to nobody */

/* The record of the owner that asks. */
static void postgres_write_owner(
	const struct lock_request *request, char text[static POSTGRES_OWNER])
{
	size_t length;

	owner_write(request->self, text);
	if (request->cooldown_ms > 0 || request->once)
		strlcat(text, "\tasks=1", POSTGRES_OWNER);
	length = strlen(text);
	if (request->detached)
		snprintf(text + length, POSTGRES_OWNER - length,
			"\tttl=%" PRId64 "\tleast=%" PRId64, request->ttl_ms, request->at_least_ms);
}

/* False: there is no sense in what a function says. */
static bool read_word(const PGresult *result, struct lock_answer *answer)
{
	static const struct {
		const char *word;
		enum lock_result result;
	} words[] = {{"granted", LOCK_GRANTED}, {"already", LOCK_ALREADY}, {"busy", LOCK_BUSY},
		{"ended", LOCK_LOST}, {"extended", LOCK_GRANTED}, {"again", LOCK_SET_AGAIN},
		{"released", LOCK_RELEASED}, {"gone", LOCK_GONE}, {"lost", LOCK_LOST},
		{"denied", LOCK_LOST}};
	size_t i = 0, count = sizeof(words) / sizeof(words[0]);

	while (i < count && strcmp(words[i].word, text_at(result, 0, "result")) != 0)
		i++;
	answer->result = i < count ? words[i].result : LOCK_FAILED;
	return i < count;
}

/* The plain statement answers with a row where it applies; else the function decides, which has the
 * same arguments and more. NULL: failed. */
static PGresult *ask(struct postgres_lock *p, const char *plain, int plain_count,
	const char *function, int count, const char *const *arguments, struct deadline deadline,
	struct lock_answer *answer)
{
	struct postgres_session *session = &p->session;
	PGresult *result = NULL;

	if (plain) {
		result = postgres_session_call(
			session, plain, plain_count, arguments, deadline, answer);
		p->is_plain = PQntuples(result) > 0;
	}
	if (!plain || (!p->is_plain && session->connection)) {
		PQclear(result);
		result = postgres_session_call(
			session, function, count, arguments, deadline, answer);
	}
	if (!result || read_word(result, answer))
		return result;
	failure_set(&answer->failure, EXIT_PROTOCOL, "%s: an answer without sense",
		session->server->text);
	PQclear(result);
	return NULL;
}

static void read_busy(struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	nanos left = number_at(result, 0, "left_us") * 1000;

	answer->rank = (int)number_at(result, 0, "rank");
	answer->free_in_ms = left / NANOS_PER_MS;
	answer->known = *text_at(result, 0, "owner") != '\0';
	if (answer->known)
		owner_read(&answer->holder, text_at(result, 0, "owner"));
	p->look_at = clock_now() + left + LOOK_AFTER;
	/* If a claim does not come, those that are ahead may be dead as well. */
	if (answer->rank > 0 && !flag_at(result, 0, "is_unclaimed"))
		p->look_at += answer->rank * RANK_AFTER;
	if (flag_at(result, 0, "is_foreign")) {
		answer->foreign = "another client with the advisory lock";
		answer->free_in_ms = -1;
		p->look_at = clock_now() + FOREIGN_ASK;
	}
	answer->look_at = p->look_at;
}

static void read_grant(struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	answer->has_slot = p->request.mode == LOCK_PERMITS && answer->result == LOCK_GRANTED;
	if (answer->has_slot)
		answer->slot = (int)number_at(result, 0, "rank");
}

static void read_answer(struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	p->ticket = number_at(result, 0, "ticket");
	p->number = number_at(result, 0, "session");
	answer->fence = (uint64_t)number_at(result, 0, "fence");
	answer->held_ms = number_at(result, 0, "ms");
	strlcpy(answer->holder_token, text_at(result, 0, "holder"), sizeof(answer->holder_token));
	if (answer->result == LOCK_ALREADY) {
		p->lock.asked = false; /* no longer in the queue: nothing is to be taken back */
		run_read(&answer->done, text_at(result, 0, "owner"), (int64_t)answer->fence);
	} else if (answer->result == LOCK_GRANTED)
		read_grant(p, result, answer);
	else if (answer->result == LOCK_BUSY)
		read_busy(p, result, answer);
	else if (answer->result == LOCK_LOST)
		token_make(p->request.self, p->lock.token);
}

static void postgres_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct postgres_lock *p = (struct postgres_lock *)lock;
	const struct lock_request *r = &p->request;
	const char *advisory = p->session.server->setting;
	bool is_plain = r->mode == LOCK_EXCLUSIVE && !r->once && r->cooldown_ms == 0 && !advisory &&
			p->ticket == 0;
	PGresult *result;

	if (!p->session.connection)
		p->number = 0; /* the next one begins from nothing */
	p->session.is_take = true;
	result = ask(p, is_plain ? sql_take : NULL, 8,
		"SELECT * FROM dlock.acquire_3($1, $2, $7, $3, $4, $9, $10, $5, $11, $12, $13, "
		"$14, $15, $6, dlock.advisory_key($16, $17)) "
		"WHERE pg_catalog.pg_backend_pid() = $8::int", /* nothing through a pooler */
		ARGUMENTS(p->key, p->lock.token, NUMBER(lock_ttl_ms(r, 0)), FLAG(r->detached),
			NUMBER(p->ticket), NUMBER(p->number), p->owner, p->session.pid,
			(const char *[]){"x", "s", "p"}[r->mode], NUMBER(r->permits),
			NUMBER(r->priority), NUMBER(lock_window_ms(lock, r)),
			r->once ? r->once : "", r->held ? r->held : "", FLAG(r->queues), advisory,
			r->name),
		deadline, answer);
	p->session.is_take = false;
	lock->asked = lock->asked || p->session.pid[0] != '\0';
	if (result)
		read_answer(p, result, answer);
	PQclear(result);
}

static enum lock_result postgres_wait(
	struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct postgres_lock *p = (struct postgres_lock *)lock;

	(void)failure;
	while (p->session.connection && clock_now() < p->look_at) {
		struct deadline limit = deadline;
		enum lock_result got;
		int64_t ms; /* in which to look */

		limit.until = number_least(deadline.until, p->look_at);
		got = postgres_session_listen(&p->session, limit, &ms);
		if (got == LOCK_CANCELLED || (got == LOCK_TIMEOUT && clock_now() >= deadline.until))
			return got;
		if (got == LOCK_GRANTED && ms < 0) /* back, but not all at once */
			return deadline_pause(deadline, clock_jitter(300 * NANOS_PER_MS))
				       ? LOCK_GRANTED
				       : LOCK_CANCELLED;
		if (got == LOCK_GRANTED)
			p->look_at = number_least(p->look_at, clock_now() + ms * NANOS_PER_MS);
	}
	return LOCK_GRANTED;
}

/* The owner may be another process than the one that is on record. If that cannot be said now, it
 * is with the next renewal. */
static void pass_on(struct postgres_lock *p, struct deadline deadline)
{
	static struct lock_answer unheard; /* large */
	char owner[POSTGRES_OWNER];
	PGresult *result;

	postgres_write_owner(&p->request, owner);
	if (strcmp(owner, p->owner) == 0)
		return;
	result = postgres_session_call(&p->session,
		"UPDATE dlock.holder SET owner = $3 WHERE name = $1 AND token = $2",
		ARGUMENTS(p->key, p->lock.token, owner), deadline, &unheard);
	if (result)
		strlcpy(p->owner, owner, sizeof(p->owner));
	PQclear(result);
}

static void postgres_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct postgres_lock *p = (struct postgres_lock *)lock;
	PGresult *result = ask(p, NULL, 0,
		"SELECT * FROM dlock.renew_2($1, $2, $3, $4, dlock.advisory_key($5, $6))",
		ARGUMENTS(p->key, lock->token, NUMBER(lock_ttl_ms(&p->request, lock->granted_at)),
			FLAG(lock_is_by_token(&p->request)), p->session.server->setting,
			p->request.name),
		deadline, answer);

	answer->ttl_ms = number_at(result, 0, "ttl_ms");
	answer->fence = (uint64_t)number_at(result, 0, "fence");
	PQclear(result);
	if (result && answer->result != LOCK_LOST && !lock_is_by_token(&p->request))
		pass_on(p, deadline);
}

static void read_release(struct postgres_lock *p)
{
	/* Nothing is left in the server: the next attempt is another. */
	p->lock.asked = false;
	p->ticket = 0;
	token_begin(&p->request, p->lock.token);
}

static void postgres_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct postgres_lock *p = (struct postgres_lock *)lock;
	const struct lock_request *r = &p->request;
	struct release_terms terms = release_terms ? *release_terms : (struct release_terms){0};
	PGresult *result;

	answer->result = LOCK_GONE;
	if (!p->lock.asked && !lock_is_by_token(r))
		return;
	result = ask(p, p->is_plain && terms.keep_ms <= 0 ? sql_release : NULL, 3,
		"SELECT * FROM dlock.release_3($1, $2, $3, $4, $5, $6, $7, $8, "
		"dlock.advisory_key($9, $10))",
		ARGUMENTS(p->key, lock->token, NUMBER(terms.ran ? terms.exit : -1),
			NUMBER(terms.keep_ms), NUMBER((int64_t)lock->fence),
			FLAG(lock_is_by_token(r)), r->once ? r->once : "", NUMBER(r->once_for_ms),
			p->session.server->setting, r->name),
		deadline, answer);
	if (result)
		read_release(p);
	PQclear(result);
}

static void postgres_force(struct lock *lock, lock_holder_taker *tell, void *context,
	struct deadline deadline, struct lock_answer *answer)
{
	struct postgres_lock *p = (struct postgres_lock *)lock;
	PGresult *result = postgres_session_call(&p->session, "SELECT * FROM dlock.force_2($1, $2)",
		ARGUMENTS(p->key, NUMBER(p->request.fence)), deadline, answer);

	for (int i = 0; i < PQntuples(result); i++) {
		struct lock_answer held = {.result = LOCK_BUSY,
			.known = true,
			.rank = -1,
			.held_ms = number_at(result, i, "ms"),
			.free_in_ms = number_at(result, i, "left_ms"),
			.detached = flag_at(result, i, "detached")};

		owner_read(&held.holder, text_at(result, i, "owner"));
		tell(&held, context);
	}
	if (result)
		answer->result = PQntuples(result) > 0 ? LOCK_RELEASED : LOCK_GONE;
	PQclear(result);
}

/* --- The service ------------------------------------------------------------------------------ */

static bool read_url(struct server_reading *reading)
{
	struct server *server = reading->server;
	PQconninfoOption *options;

	server->text = strdup(reading->text);
	server->path = strdup(reading->text);
	if (!server->text || !server->path)
		return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
	server_scrub(server->text);
	/* All else is libpq's. */
	if (!server_cut_parameter(reading, server->path, "dlock_advisory=", &server->setting))
		return false;
	if (server->setting && !number_is(server->setting) &&
		strcmp(server->setting, "hashtext") != 0)
		return server_fault(reading, "dlock_advisory= with neither a number nor hashtext");
	/* libpq reads it again as it connects; what it takes is known now, and the password. */
	options = PQconninfoParse(server->path, NULL);
	for (const PQconninfoOption *o = options; o && o->keyword; o++)
		if (o->val && strcmp(o->keyword, "password") == 0)
			server->password = strdup(o->val);
	PQconninfoFree(options);
	return options || server_fault(reading, "what libpq does not take");
}

static struct lock *postgres_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct postgres_lock *p = lock_new(sizeof(*p), &postgres_service, request, failure);

	if (!p)
		return NULL;
	p->request = *request;
	p->session.server = server;
	snprintf(p->key, sizeof(p->key), "%s%s", request->prefix, request->name);
	postgres_write_owner(request, p->owner);
	token_begin(request, p->lock.token);
	return &p->lock;
}

static void postgres_close(struct lock *lock)
{
	postgres_session_close(&((struct postgres_lock *)lock)->session);
	free(lock);
}

static int postgres_watch_fd(const struct lock *lock)
{
	const struct postgres_session *session = &((const struct postgres_lock *)lock)->session;

	return session->connection && session->is_set ? PQsocket(session->connection) : -1;
}

static const struct lock_scheme schemes[] = {
	{"postgres", false, 5432, 0}, {"postgresql", false, 5432, 0}, {0}};

void postgres_library(char *text, size_t size)
{
	int version = PQlibVersion();

	snprintf(text, size, "libpq %d.%d", version / 10000, version % 10000);
}

static const struct lock_lack lacks[] = {
	{LOCK_CAN_REPLICATE, "synchronous_standby_names of the server decides that"},
	{LOCK_CAN_SETTLE, "the server does not forget its locks"},
	{0},
};

const struct lock_service postgres_service = {
	.name = "PostgreSQL",
	.schemes = schemes,
	.can = LOCK_CAN_SHARE | LOCK_CAN_PERMITS | LOCK_CAN_PRIORITY | LOCK_CAN_RECORD |
	       LOCK_CAN_KEEP | LOCK_CAN_DETACH | LOCK_CAN_JOIN | LOCK_CAN_FORCE | LOCK_CAN_SHOW,
	.lacks = lacks,
	.password_variable = "DLOCK_PASSWORD",
	.read_url = read_url,
	.open = postgres_open,
	.close = postgres_close,
	.take = postgres_take,
	.renew = postgres_renew,
	.release = postgres_release,
	.wait = postgres_wait,
	.watch_fd = postgres_watch_fd,
	.force = postgres_force,
	.check = postgres_check,
	.list = postgres_list,
};
