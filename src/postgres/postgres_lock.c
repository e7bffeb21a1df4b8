/* Taking, renewing, releasing and breaking a lock, and waiting for it. */
#include "postgres/postgres_lock.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/token.h"
#include "net/server.h"

#define LOOK_AFTER  (5 * NANOS_PER_MS) /* an expiry, so that it is surely past */
#define RANK_AFTER  NANOS_PER_SEC      /* what each that is ahead gets to do so first */
#define FOREIGN_ASK NANOS_PER_SEC      /* an advisory lock's end is told to nobody */
#define LOOK_MOST   INT64_C(10000)     /* ms that a message may ask for */

#define ADVISORY "dlock.advisory_key($1, $2)"

/* --- What is sent and read -----------------------------------------------------------------------
 */

static int64_t number_at(const PGresult *result, const char *column)
{
	return strtoll(PQgetvalue(result, 0, PQfnumber(result, column)), NULL, 10);
}

static bool flag_at(const PGresult *result, const char *column)
{
	return *PQgetvalue(result, 0, PQfnumber(result, column)) == 't';
}

static const char *text_at(const PGresult *result, const char *column)
{
	return PQgetvalue(result, 0, PQfnumber(result, column));
}

static const char *write_number(char text[static NUMBER_SIZE], int64_t number)
{
	snprintf(text, NUMBER_SIZE, "%" PRId64, number);
	return text;
}

/* The tokens of a list as an array of SQL; all between blanks, or the first of each line. Tokens
 * with other characters than a token's are passed over. */
static char *write_array(const char *list, bool lines)
{
	size_t size = (list ? 3 * strlen(list) : 0) + 3, used = 1;
	char *text = malloc(size);

	if (!text)
		return NULL;
	text[0] = '{';
	for (const char *at = list; at && *at;) {
		size_t length = strcspn(at, " \n");

		if (length > 0 && !memchr(at, '"', length) && !memchr(at, '\\', length))
			used += (size_t)snprintf(text + used, size - used, "%s\"%.*s\"",
				used > 1 ? "," : "", (int)length, at);
		at += length;
		if (lines)
			at += strcspn(at, "\n");
		at += strspn(at, " \n");
	}
	text[used++] = '}';
	text[used] = '\0';
	return text;
}

/* The result and the failure of a call that has no row go into the answer. */
static bool has_row(enum lock_result got, struct lock_answer *answer)
{
	answer->result = got;
	return got == LOCK_GRANTED;
}

static bool is_word(const PGresult *result, const char *word)
{
	return strcmp(text_at(result, "result"), word) == 0;
}

/* --- Taking it -----------------------------------------------------------------------------------
 */

static void read_holder(
	const struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	(void)p;
	strlcpy(answer->holder_token, text_at(result, "holder"), sizeof(answer->holder_token));
	if (*text_at(result, "owner") == '\0')
		return;
	answer->known = true;
	owner_read(&answer->holder, text_at(result, "owner"));
	answer->held_ms = (number_at(result, "now") - number_at(result, "since")) / 1000;
}

static void read_busy(struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	nanos left = number_at(result, "left_us") * 1000;

	answer->result = LOCK_BUSY;
	answer->rank = (int)number_at(result, "rank");
	answer->free_in_ms = left / NANOS_PER_MS;
	read_holder(p, result, answer);
	p->look_at = clock_now() + left + LOOK_AFTER +
		     (answer->rank > 0 ? answer->rank * RANK_AFTER : 0);
	if (flag_at(result, "is_foreign")) {
		answer->foreign = "another client with the advisory lock";
		answer->free_in_ms = -1;
		p->look_at = clock_now() + FOREIGN_ASK;
	}
	answer->look_at = p->look_at;
}

static void read_within(const PGresult *result, struct lock_answer *answer)
{
	answer->result = LOCK_WITHIN;
	strlcpy(answer->holder_token, text_at(result, "holder"), sizeof(answer->holder_token));
	answer->whole = flag_at(result, "whole");
	answer->covered = flag_at(result, "covered");
}

static void fail_circle(struct lock_answer *answer, const char *why)
{
	answer->result = LOCK_FAILED;
	failure_set(&answer->failure, EXIT_DEADLOCK, "waiting would deadlock: %s", why);
}

static void read_answer(struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	p->ticket = number_at(result, "ticket");
	p->number = number_at(result, "session");
	answer->asked_at = p->session.sent_at;
	answer->granted_at = clock_now();
	answer->fence = (uint64_t)number_at(result, "fence");
	if (is_word(result, "granted")) {
		answer->result = LOCK_GRANTED;
		p->fence = answer->fence;
	} else if (is_word(result, "within")) {
		read_within(result, answer);
		p->fence = answer->fence;
	} else if (is_word(result, "already")) {
		answer->result = LOCK_ALREADY;
		answer->done_ms = (number_at(result, "now") - number_at(result, "since")) / 1000;
	} else if (is_word(result, "busy")) {
		read_busy(p, result, answer);
	} else if (is_word(result, "deadlock")) {
		fail_circle(
			answer, "it is held around here in a mode that this one has to wait for");
	} else if (is_word(result, "circle")) {
		fail_circle(answer, "its holder waits for a lock that is held around here");
	} else {
		answer->result = LOCK_LOST;
		token_make(&p->request.self, p->lock.token);
	}
}

/* At --at-least the lock has to stay for so long, whoever renews it. */
static int64_t lease_ms(const struct lock_request *request)
{
	return request->ttl_ms > request->at_least_ms ? request->ttl_ms : request->at_least_ms;
}

void postgres_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	static const char statement[] = "SELECT * FROM dlock.acquire_1($3, $4, $5, $6::int, $7, "
					"$8, $9::int, $10, $11, $12, "
					"$13, $14, $15, $16::int, $17, $18, " ADVISORY ")";
	struct postgres_lock *p = (struct postgres_lock *)lock;
	const struct lock_request *r = &p->request;
	char permits[NUMBER_SIZE], ttl[NUMBER_SIZE], ticket[NUMBER_SIZE], priority[NUMBER_SIZE],
		cooldown[NUMBER_SIZE], number[NUMBER_SIZE];
	char *outer = write_array(r->outer, false), *held = write_array(r->held, true);
	const char *parameters[] = {p->session.server->setting, r->name, p->key, lock->token,
		(const char *[]){"x", "s", "p"}[r->mode], write_number(permits, r->permits),
		write_number(ttl, lease_ms(r)), write_number(ticket, p->ticket),
		write_number(priority, r->priority), p->owner,
		write_number(cooldown, r->cooldown_ms), r->once ? r->once : "", outer, held,
		r->queues ? "t" : "f", write_number(number, p->session.connection ? p->number : 0),
		r->detached ? "t" : "f", r->hold ? "t" : "f"};
	PGresult *result = NULL;

	p->asked = true;
	if (has_row(session_call(&p->session, statement, 18, parameters, &result, deadline,
			    &answer->failure),
		    answer))
		read_answer(p, result, answer);
	PQclear(result);
	free(outer);
	free(held);
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
		if (got == LOCK_CANCELLED)
			return got;
		if (got == LOCK_TIMEOUT && clock_now() >= deadline.until)
			return got;
		if (got == LOCK_GRANTED && !notification) {
			/* Back to the server, but not all at the same moment. */
			return deadline_pause(deadline, clock_jitter(300 * NANOS_PER_MS))
				       ? LOCK_GRANTED
				       : LOCK_CANCELLED;
		}
		if (notification)
			hear(p, notification);
		PQfreemem(notification);
	}
	return LOCK_GRANTED;
}

/* --- Keeping it, and giving it back --------------------------------------------------------------
 */

static bool is_by_token(const struct lock_request *request)
{
	return request->token && request->detached;
}

static void deny(struct lock_answer *answer)
{
	answer->result = LOCK_LOST;
	failure_set(&answer->failure, EXIT_BUSY,
		"not held with this token: it is wrong, or has expired");
}

void postgres_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	static const char statement[] = "SELECT * FROM dlock.renew_1($3, $4, $5, $6, " ADVISORY ")";
	struct postgres_lock *p = (struct postgres_lock *)lock;
	bool by_token = is_by_token(&p->request);
	char ttl[NUMBER_SIZE];
	/* A session counts how often it has taken an advisory lock: once is enough. */
	const char *advisory = p->session.connection ? NULL : p->session.server->setting;
	const char *parameters[] = {advisory, p->request.name, p->key, lock->token,
		write_number(ttl, p->request.ttl_ms), by_token ? "t" : "f"};
	PGresult *result = NULL;

	if (!has_row(session_call(&p->session, statement, 6, parameters, &result, deadline,
			     &answer->failure),
		    answer))
		return;
	answer->asked_at = p->session.sent_at;
	answer->granted_at = clock_now();
	answer->ttl_ms = number_at(result, "ttl_ms");
	answer->fence = (uint64_t)number_at(result, "fence");
	if (is_word(result, "again"))
		answer->result = LOCK_SET_AGAIN;
	else if (is_word(result, "denied") && by_token)
		deny(answer);
	else if (is_word(result, "denied"))
		answer->result = LOCK_LOST;
	PQclear(result);
}

static void read_inside(const PGresult *result, struct lock_answer *answer)
{
	const char *at = text_at(result, "inside");

	for (char *end; *at && answer->inside_count < LOCK_INSIDE_MOST; at = end) {
		answer->inside[answer->inside_count] = (pid_t)strtol(at, &end, 10);
		if (end == at)
			break;
		answer->inside_count++;
	}
	answer->around = flag_at(result, "is_around");
}

/* Nothing is left in the server: the next attempt is another. */
static void forget(struct postgres_lock *p)
{
	p->asked = false;
	p->ticket = 0;
	p->fence = 0;
	if (!p->request.token)
		token_make(&p->request.self, p->lock.token);
}

static void read_release(
	struct postgres_lock *p, const PGresult *result, struct lock_answer *answer)
{
	answer->result = LOCK_RELEASED;
	if (is_word(result, "denied"))
		deny(answer);
	else if (is_word(result, "lost"))
		answer->result = LOCK_LOST;
	else if (is_word(result, "gone"))
		answer->result = LOCK_GONE;
	read_inside(result, answer);
	forget(p);
}

void postgres_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	static const char statement[] =
		"SELECT * FROM dlock.release_1($3, $4, $5, $6, $7, $8, $9, $10, " ADVISORY ")";
	struct postgres_lock *p = (struct postgres_lock *)lock;
	struct release_terms terms = release_terms ? *release_terms : (struct release_terms){0};
	const struct lock_request *r = &p->request;
	char keep[NUMBER_SIZE], fence[NUMBER_SIZE], once_ms[NUMBER_SIZE];
	const char *parameters[] = {p->session.server->setting, r->name, p->key, lock->token,
		write_number(keep, terms.keep_ms), write_number(fence, (int64_t)p->fence),
		is_by_token(r) ? "t" : "f", terms.success ? "t" : "f", r->once ? r->once : "",
		write_number(once_ms, r->once_for_ms)};
	PGresult *result = NULL;

	answer->result = LOCK_GONE;
	if (!p->asked && !is_by_token(r))
		return;
	while (!has_row(session_call(&p->session, statement, 10, parameters, &result, deadline,
				&answer->failure),
		answer)) {
		/* By a token the first refusal is told; else patience decides. */
		if (answer->result != LOCK_FAILED || is_by_token(r) ||
			answer->failure.code != EXIT_UNREACHABLE)
			return;
		if (!deadline_pause(deadline, clock_jitter(100 * NANOS_PER_MS)) ||
			deadline_is_over(&deadline))
			return;
	}
	read_release(p, result, answer);
	PQclear(result);
}

void postgres_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer)
{
	static const char statement[] = "SELECT *, dlock.now_us() AS now FROM dlock.force_1($1)";
	struct postgres_lock *p = (struct postgres_lock *)lock;
	const char *parameters[] = {p->key};
	PGresult *result = NULL;
	int rows;

	if (!has_row(session_call(&p->session, statement, 1, parameters, &result, deadline,
			     &answer->failure),
		    answer))
		return;
	rows = PQntuples(result);
	for (int i = 0; i < rows; i++) {
		struct lock_answer held = {.result = LOCK_BUSY, .known = true, .rank = -1};
		int64_t now = strtoll(PQgetvalue(result, i, PQfnumber(result, "now")), NULL, 10);

		owner_read(&held.holder, PQgetvalue(result, i, PQfnumber(result, "owner")));
		held.held_ms = (now - strtoll(PQgetvalue(result, i, PQfnumber(result, "since")),
					      NULL, 10)) /
			       1000;
		held.free_in_ms =
			(strtoll(PQgetvalue(result, i, PQfnumber(result, "expires")), NULL, 10) -
				now) /
			1000;
		tell(&held, context);
	}
	answer->result = rows > 0 ? LOCK_RELEASED : LOCK_GONE;
	PQclear(result);
}
