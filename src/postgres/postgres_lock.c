/* Taking, renewing, releasing and breaking a lock, and waiting for it. */
#include "postgres/postgres_lock.h"

#include <bsd/string.h>
#include <stdlib.h>
#include <string.h>

#include "lock/deadlock.h"
#include "lock/token.h"
#include "net/server.h"
#include "postgres/sql_text.h"

#define LOOK_AFTER  (5 * NANOS_PER_MS) /* an expiry, so that it is surely past */
#define RANK_AFTER  NANOS_PER_SEC      /* what each that is ahead gets to do so first */
#define FOREIGN_ASK NANOS_PER_SEC      /* an advisory lock's end is told to nobody */
#define LOOK_MOST   INT64_C(10000)     /* ms that a message may ask for */

#define ADVISORY "dlock.advisory_key($1, $2)"

/* The result and the failure of a call that has no row go into the answer. */
static bool has_result(
	const struct postgres_lock *p, enum lock_result got, struct lock_answer *answer)
{
	answer->result = got;
	answer->asked_at = p->session.sent_at;
	answer->granted_at = clock_now();
	return got == LOCK_GRANTED;
}

static bool connect_first(
	struct postgres_lock *p, struct deadline deadline, struct lock_answer *answer)
{
	if (!p->session.connection)
		p->number = 0; /* the next session has none yet */
	return has_result(p, session_connect(&p->session, deadline, &answer->failure), answer);
}

/* The same of a short statement: where it gives no row, or is refused, another has to decide. */
static bool has_row(const struct postgres_lock *p, enum lock_result got, PGresult **result,
	struct lock_answer *answer)
{
	if (has_result(p, got, answer) && PQntuples(*result) > 0)
		return true;
	if (got == LOCK_FAILED && p->session.connection)
		answer->result = LOCK_GRANTED;
	PQclear(*result);
	*result = NULL;
	return false;
}

static bool is_word(const PGresult *result, const char *word)
{
	return strcmp(text_at(result, 0, "result"), word) == 0;
}

/* --- Taking it -------------------------------------------------------------------------------- */

static void read_busy(struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	nanos left = number_at(result, 0, "left_us") * 1000;

	answer->result = LOCK_BUSY;
	answer->rank = (int)number_at(result, 0, "rank");
	answer->free_in_ms = left / NANOS_PER_MS;
	answer->held_ms = number_at(result, 0, "ms");
	strlcpy(answer->holder_token, text_at(result, 0, "holder"), sizeof(answer->holder_token));
	answer->known = *text_at(result, 0, "owner") != '\0';
	if (answer->known)
		owner_read(&answer->holder, text_at(result, 0, "owner"));
	p->look_at = clock_now() + left + LOOK_AFTER +
		     (answer->rank > 0 ? answer->rank * RANK_AFTER : 0);
	if (flag_at(result, 0, "is_foreign")) {
		answer->foreign = "another client with the advisory lock";
		answer->free_in_ms = -1;
		p->look_at = clock_now() + FOREIGN_ASK;
	}
	answer->look_at = p->look_at;
}

static void read_within(const PGresult *result, struct lock_answer *answer)
{
	answer->result = LOCK_WITHIN;
	strlcpy(answer->holder_token, text_at(result, 0, "holder"), sizeof(answer->holder_token));
	answer->whole = flag_at(result, 0, "whole");
	answer->covered = flag_at(result, 0, "covered");
}

static void read_answer(struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	p->ticket = number_at(result, 0, "ticket");
	p->number = number_at(result, 0, "session");
	answer->fence = (uint64_t)number_at(result, 0, "fence");
	if (is_word(result, "within"))
		read_within(result, answer);
	if (is_word(result, "granted") || is_word(result, "within")) {
		p->fence = answer->fence;
	} else if (is_word(result, "already")) {
		answer->result = LOCK_ALREADY;
		answer->done_ms = number_at(result, 0, "ms");
	} else if (is_word(result, "busy")) {
		read_busy(p, result, answer);
	} else if (is_word(result, "ended")) {
		answer->result = LOCK_LOST;
		token_make(&p->request.self, p->lock.token);
	} else if (is_word(result, "mode s") || is_word(result, "mode p")) {
		deadlock_by_mode(is_word(result, "mode s") ? LOCK_SHARED : LOCK_PERMITS, answer);
	} else if (is_word(result, "circle")) {
		answer->result = LOCK_FAILED;
		deadlock_by_circle(text_at(result, 0, "owner"), &answer->failure);
	} else {
		answer->result = LOCK_FAILED;
		failure_set(&answer->failure, EXIT_PROTOCOL, "%s: an answer without sense",
			p->session.server->text);
	}
}

/* At --at-least the lock has to stay for so long, whoever renews it. */
static int64_t lease_ms(const struct lock_request *request)
{
	return request->ttl_ms > request->at_least_ms ? request->ttl_ms : request->at_least_ms;
}

/* Most locks are free. False: it is not, or not for a request of that kind; or the call failed. */
static bool take_free(struct postgres_lock *p, PGresult **result, struct deadline deadline,
	struct lock_answer *answer)
{
	const struct lock_request *r = &p->request;

	if (r->mode != LOCK_EXCLUSIVE || r->once || r->cooldown_ms > 0 || (r->outer && *r->outer) ||
		p->session.server->setting || p->ticket != 0)
		return false;
	return has_row(p,
		session_call(&p->session, sql_take,
			ARGUMENTS(p->key, p->lock.token, p->owner, NUMBER(lease_ms(r)),
				FLAG(r->detached), NUMBER(PQbackendPID(p->session.connection))),
			result, deadline, &answer->failure),
		result, answer);
}

static bool take_or_queue(struct postgres_lock *p, PGresult **result, struct deadline deadline,
	struct lock_answer *answer)
{
	static const char statement[] =
		"SELECT * FROM dlock.acquire_1($3, $4, $5, $6, $7, $8, $9, $10, $11, $12, "
		"$13, $14, $15, $16, $17, $18, " ADVISORY ") "
		"WHERE pg_catalog.pg_backend_pid() = $19"; /* through a pooler nothing is taken */
	const struct lock_request *r = &p->request;

	return has_result(p,
		session_call(&p->session, statement,
			ARGUMENTS(p->session.server->setting, r->name, p->key, p->lock.token,
				(const char *[]){"x", "s", "p"}[r->mode], NUMBER(r->permits),
				NUMBER(lease_ms(r)), NUMBER(p->ticket), NUMBER(r->priority),
				p->owner, NUMBER(r->cooldown_ms), r->once ? r->once : "",
				r->outer ? r->outer : "", r->held ? r->held : "", FLAG(r->queues),
				NUMBER(p->number), FLAG(r->detached), FLAG(r->hold),
				NUMBER(PQbackendPID(p->session.connection))),
			result, deadline, &answer->failure),
		answer);
}

void postgres_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct postgres_lock *p = (struct postgres_lock *)lock;
	PGresult *result = NULL;

	answer->result = LOCK_GRANTED;
	if (!connect_first(p, deadline, answer))
		return;
	lock->asked = true;
	if (take_free(p, &result, deadline, answer) ||
		(answer->result == LOCK_GRANTED && take_or_queue(p, &result, deadline, answer)))
		read_answer(p, result, answer);
	PQclear(result);
}

/* "go": at once; "look N": in N ms. */
static void hear(struct postgres_lock *p, const PGnotify *notification)
{
	int64_t ms = strncmp(notification->extra, "look ", 5) == 0
			     ? strtoll(notification->extra + 5, NULL, 10)
			     : 0;
	nanos at = clock_now() + (ms < LOOK_MOST ? ms : LOOK_MOST) * NANOS_PER_MS;

	if (at < p->look_at)
		p->look_at = at;
}

enum lock_result postgres_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct postgres_lock *p = (struct postgres_lock *)lock;

	(void)failure;
	while (clock_now() < p->look_at) {
		struct deadline limit = deadline;
		PGnotify *notification;
		enum lock_result got;

		if (p->look_at < limit.until)
			limit.until = p->look_at;
		got = session_listen(&p->session, limit, &notification);
		if (got == LOCK_CANCELLED || (got == LOCK_TIMEOUT && clock_now() >= deadline.until))
			return got;
		if (got == LOCK_GRANTED && !notification) /* back, but not all at once */
			return deadline_pause(deadline, clock_jitter(300 * NANOS_PER_MS))
				       ? LOCK_GRANTED
				       : LOCK_CANCELLED;
		if (notification)
			hear(p, notification);
		PQfreemem(notification);
	}
	return LOCK_GRANTED;
}

/* --- Keeping it, and giving it back ----------------------------------------------------------- */

static bool is_by_token(const struct lock_request *request)
{
	return request->token && request->detached;
}

static void deny(const struct postgres_lock *p, struct lock_answer *answer)
{
	answer->result = LOCK_LOST;
	if (is_by_token(&p->request))
		failure_set(&answer->failure, EXIT_BUSY,
			"not held with this token: it is wrong, or has expired");
}

void postgres_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	static const char statement[] = "SELECT * FROM dlock.renew_1($3, $4, $5, $6, " ADVISORY ")";
	struct postgres_lock *p = (struct postgres_lock *)lock;
	PGresult *result;
	/* A session counts how often it has taken an advisory lock: once is enough. */
	const char *advisory = p->session.connection ? NULL : p->session.server->setting;

	if (!has_result(p,
		    session_call(&p->session, statement,
			    ARGUMENTS(advisory, p->request.name, p->key, lock->token,
				    NUMBER(p->request.ttl_ms), FLAG(is_by_token(&p->request))),
			    &result, deadline, &answer->failure),
		    answer))
		return;
	answer->ttl_ms = number_at(result, 0, "ttl_ms");
	answer->fence = (uint64_t)number_at(result, 0, "fence");
	if (is_word(result, "again"))
		answer->result = LOCK_SET_AGAIN;
	else if (is_word(result, "denied"))
		deny(p, answer);
	PQclear(result);
}

static void read_release(
	struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	const char *at = text_at(result, 0, "inside");

	answer->result = LOCK_RELEASED;
	if (is_word(result, "denied"))
		deny(p, answer);
	else if (is_word(result, "lost"))
		answer->result = LOCK_LOST;
	else if (is_word(result, "gone"))
		answer->result = LOCK_GONE;
	for (char *end; *at && answer->inside_count < LOCK_INSIDE_MOST; at = end)
		answer->inside[answer->inside_count++] = (pid_t)strtol(at, &end, 10);
	answer->around = flag_at(result, 0, "is_around");
	/* Nothing is left in the server: the next attempt is another. */
	p->lock.asked = false;
	p->ticket = 0;
	p->fence = 0;
	if (!p->request.token)
		token_make(&p->request.self, p->lock.token);
}

/* The brother of take_free: nobody has asked for the lock since. */
static bool release_alone(struct postgres_lock *p, const struct release_terms *terms,
	PGresult **result, struct deadline deadline, struct lock_answer *answer)
{
	if (p->request.token || p->request.once || p->session.server->setting ||
		terms->keep_ms > 0 || p->fence == 0)
		return false;
	return has_row(p,
		session_call(&p->session, sql_release,
			ARGUMENTS(p->key, p->lock.token, FLAG(terms->success)), result, deadline,
			&answer->failure),
		result, answer);
}

static bool release_any(struct postgres_lock *p, const struct release_terms *terms,
	PGresult **result, struct deadline deadline, struct lock_answer *answer)
{
	static const char statement[] =
		"SELECT * FROM dlock.release_1($3, $4, $5, $6, $7, $8, $9, $10, " ADVISORY ")";
	const struct lock_request *r = &p->request;

	return has_result(p,
		session_call(&p->session, statement,
			ARGUMENTS(p->session.server->setting, r->name, p->key, p->lock.token,
				NUMBER(terms->keep_ms), NUMBER((int64_t)p->fence),
				FLAG(is_by_token(r)), FLAG(terms->success), r->once ? r->once : "",
				NUMBER(r->once_for_ms)),
			result, deadline, &answer->failure),
		answer);
}

void postgres_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct postgres_lock *p = (struct postgres_lock *)lock;
	struct release_terms terms = release_terms ? *release_terms : (struct release_terms){0};
	PGresult *result = NULL;

	answer->result = LOCK_GONE;
	if (!p->lock.asked && !is_by_token(&p->request))
		return;
	while (!release_alone(p, &terms, &result, deadline, answer) &&
		!release_any(p, &terms, &result, deadline, answer)) {
		/* By a token the first refusal is told; else patience decides. */
		if (answer->result != LOCK_FAILED || is_by_token(&p->request) ||
			answer->failure.code != EXIT_UNREACHABLE ||
			!deadline_pause(deadline, clock_jitter(100 * NANOS_PER_MS)) ||
			deadline_is_over(&deadline))
			return;
	}
	read_release(p, result, answer);
	PQclear(result);
}

void postgres_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer)
{
	struct postgres_lock *p = (struct postgres_lock *)lock;
	PGresult *result;

	if (!has_result(p,
		    session_call(&p->session, "SELECT * FROM dlock.force_1($1)", ARGUMENTS(p->key),
			    &result, deadline, &answer->failure),
		    answer))
		return;
	for (int i = 0; i < PQntuples(result); i++) {
		struct lock_answer held = {.result = LOCK_BUSY,
			.known = true,
			.rank = -1,
			.held_ms = number_at(result, i, "ms"),
			.free_in_ms = number_at(result, i, "left_ms")};

		owner_read(&held.holder, text_at(result, i, "owner"));
		tell(&held, context);
	}
	answer->result = PQntuples(result) > 0 ? LOCK_RELEASED : LOCK_GONE;
	PQclear(result);
}
