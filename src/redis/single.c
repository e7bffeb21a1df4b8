#include "redis/single.h"

#include <bsd/stdlib.h>
#include <bsd/string.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "decimal.h"
#include "redis/connection.h"
#include "redis/fitness.h"
#include "server.h"

#define LEASE_MS        2000 /* of a waiter that does not listen yet; as LEASE in prelude.lua */
#define US_PER_PRIORITY (60 * INT64_C(1000000)) /* a point counts as a minute of waiting */
#define PAUSE_LEAST     50                      /* ms between tries */
#define PAUSE_MORE      200

enum lock_result single_result(enum wire wire, struct patience patience)
{
	switch (wire) {
	case WIRE_OK:
		return LOCK_GRANTED;
	case WIRE_CANCELLED:
		return LOCK_CANCELLED;
	case WIRE_TIMEOUT:
		return clock_now() < patience.until ? LOCK_FAILED : LOCK_TIMEOUT;
	case WIRE_CLOSED:
	case WIRE_AGAIN:
	case WIRE_FAILED:
		break;
	}
	return LOCK_FAILED;
}

void single_clear(struct lock_answer *answer)
{
	memset(answer, 0, offsetof(struct lock_answer, handed));
}

void single_read_handed(const struct reply *list, struct lock_answer *answer)
{
	answer->handed_count = 0;
	for (size_t i = 0; i < reply_count(list) && i < LOCK_HANDED_MOST; i++) {
		const char *token = reply_text(reply_at(list, i));

		if (token)
			strlcpy(answer->handed[answer->handed_count++], token, LOCK_TOKEN_SIZE);
	}
}

bool single_pause(struct patience patience, enum lock_result *result)
{
	nanos span = (PAUSE_LEAST + arc4random_uniform(PAUSE_MORE)) * NANOS_PER_MS;

	if (patience_wait(patience_within(patience, span), -1, 0) == PATIENCE_CANCELLED) {
		*result = LOCK_CANCELLED;
		return false;
	}
	return clock_now() < patience.until;
}

/* --- Tokens --------------------------------------------------------------------------------- */

static bool set_token(struct single *single, const char *token, struct failure *failure)
{
	strlcpy(single->token, token, sizeof(single->token));
	keys_free(&single->keys);
	if (!keys_make(&single->keys, single->request.prefix, single->request.name, single->token))
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	single->session.key = single->keys.lock;
	single->spent = false;
	return true;
}

static bool renew_token(struct single *single, struct failure *failure)
{
	char token[LOCK_TOKEN_SIZE];
	char *at;
	uint64_t random[2];

	/* Not libbsd's arc4random: it costs two mappings and a handler of fork(2). */
	while (getrandom(random, sizeof(random), 0) < 0 && errno == EINTR)
		continue;
	at = stpcpy(stpcpy(token, single->request.self.host), ":");
	at = stpcpy(decimal_write(at, single->request.self.pid), ":");
	decimal_write_hex(decimal_write_hex(at, random[0]), random[1]);
	return set_token(single, token, failure);
}

/* --- Acquire -------------------------------------------------------------------------------- */

int64_t single_ttl_ms(const struct single *single)
{
	const struct lock_request *request = &single->request;
	int64_t left = request->at_least_ms;

	if (single->granted_at != 0)
		left -= (clock_now() - single->granted_at) / NANOS_PER_MS;
	return left > request->ttl_ms ? left : request->ttl_ms;
}

static void begin_acquire(struct single *single, struct call *call, struct patience patience)
{
	const struct lock_request *request = &single->request;

	call_begin(call, &script_acquire, &single->keys, single->token);
	call_add(call, single->mode);
	call_add_number(call, single_ttl_ms(single));
	call_add_number(call, request->queues ? LEASE_MS : 0);
	call_add_number(call, (int64_t)single->ticket);
	call_add_number(call, request->priority * US_PER_PRIORITY);
	call_add_number(call, waiting_hold_off(single));
	call_add_number(call, (int64_t)single->waiting.seen);
	call_add(call, single->text);
	call_add_number(call, request->cooldown_ms);
	call_add(call, single->once);
	call_add(call, request->outer ? request->outer : "");
	if (request->settle_ms > 0)
		call_add_number(call, request->settle_ms);
	replicas_ask(single, call, patience);
}

/* Until a server has answered, the caller's patience is the only limit. */
static struct patience one_try(const struct single *single, struct patience patience)
{
	nanos most = SINGLE_TRY + single->request.replicas_ms * NANOS_PER_MS;

	return single->answered ? patience_within(patience, most) : patience;
}

static enum lock_result single_ask(
	struct lock *lock, struct patience patience, struct failure *failure)
{
	struct single *single = (struct single *)lock;
	struct patience limit = one_try(single, patience);
	struct call call;
	enum wire wire;

	if (single->spent && !renew_token(single, failure))
		return LOCK_FAILED;
	single->asked = true;
	waiting_stop(single);
	begin_acquire(single, &call, limit);
	wire = session_send(&single->session, &call, limit, failure);
	single->asked_on = single->session.dials;
	return single_result(wire, patience);
}

/* What the server granted though it refused the greeting must not stay. */
static void take_back(struct single *single, struct patience patience)
{
	static struct lock_answer unheard; /* large, and seldom needed */

	single->session.refusal.code = EXIT_DONE;
	single_release(&single->lock, NULL, patience, &unheard);
	session_drop(&single->session);
}

/* Everything but the state of the connection. */
static void learn(struct single *single, const struct lock_answer *answer)
{
	switch (answer->result) {
	case LOCK_GRANTED:
		single->answered = true;
		single->fence = answer->fence;
		single->generation = answer->generation;
		single->since_us = answer->since_us;
		single->granted_at = answer->granted_at;
		break;
	case LOCK_ALREADY:
		single->answered = true;
		single->asked = false;
		break;
	case LOCK_BUSY:
		single->answered = true;
		single->ticket = answer->ticket;
		single->asked = single->request.queues;
		waiting_learn(single, answer);
		break;
	case LOCK_WITHIN:
		single->answered = true;
		single->asked = false;
		session_drop(&single->session);
		break;
	case LOCK_LOST:
		single->spent = true;
		break;
	default:
		break;
	}
}

/* As acquire.lua says it. */
static bool single_is_busy(const struct lock *lock)
{
	static const char busy[] = "*9\r\n$4\r\nbusy\r\n";
	const struct single *single = (const struct single *)lock;

	return connection_begins(single->session.connection, busy, sizeof(busy) - 1);
}

static void single_answer(struct lock *lock, struct patience patience, struct lock_answer *answer)
{
	struct single *single = (struct single *)lock;
	struct patience limit = one_try(single, patience);
	struct session *session = &single->session;
	struct reply *reply = NULL;
	struct call call;
	enum wire wire;

	single_clear(answer);
	begin_acquire(single, &call, limit);
	wire = session_receive(session, &call, &reply, limit, &answer->failure);
	while (wire == WIRE_AGAIN && single_pause(limit, &answer->result)) {
		struct failure before = answer->failure;

		wire = session_send(session, &call, limit, &answer->failure);
		if (wire == WIRE_OK)
			wire = session_receive(session, &call, &reply, limit, &answer->failure);
		/* A try that is cut off says less than the one before. */
		if (wire == WIRE_TIMEOUT)
			answer->failure = before;
	}
	if (wire == WIRE_OK) {
		answer_read(session, reply, answer);
		reply_free(reply);
		learn(single, answer);
		replicas_heed(single, limit, answer);
	} else if (answer->result != LOCK_CANCELLED) {
		answer->result = single_result(wire, patience);
	}
	if (session->landed)
		take_back(single, limit);
}

static void single_learn(struct lock *lock, const struct lock_answer *answer)
{
	struct single *single = (struct single *)lock;
	struct session *session = &single->session;
	bool clean = answer->result == LOCK_GRANTED /* the child goes on with it, up to lock_part */
		     || answer->result == LOCK_BUSY || answer->result == LOCK_ALREADY;

	learn(single, answer);
	/* Behind these the child did not wait for the replicas. */
	if (single->request.replicas > 0 && answer->result != LOCK_GRANTED)
		clean = answer->result == LOCK_BUSY && single->request.queues;
	session->waiting = session->owes = false;
	session->greetings = 0;
	/* Even if only by the child, as with TLS: a node found by a redirect is not in doubt. */
	session->heard = session->heard || clean;
	if (!clean || (session->connection && connection_is_stale(session->connection)))
		session_drop(session);
}

/* --- The rest ------------------------------------------------------------------------------- */

static void single_close(struct lock *lock)
{
	struct single *single = (struct single *)lock;

	session_close(&single->session);
	keys_free(&single->keys);
	free(single);
}

static struct lock *single_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct single *single = calloc(1, sizeof(*single));
	bool done;

	if (!single) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	single->lock.backend = &single_backend;
	single->request = *request;
	single->session.server = server;
	session_begin(&single->session);
	single->asked = request->token != NULL; /* whoever has a token has been here before */
	record_mode(request, single->mode);
	record_text(request, single->text);
	keys_once(request->once, single->once);
	done = request->token ? set_token(single, request->token, failure)
			      : renew_token(single, failure);
	if (done)
		return &single->lock;
	single_close(&single->lock);
	return NULL;
}

static void single_reset(struct lock *lock)
{
	struct single *single = (struct single *)lock;

	session_drop(&single->session);
	waiting_stop(single);
}

static int single_watch_fd(const struct lock *lock)
{
	const struct single *single = (const struct single *)lock;
	const struct session *session = &single->session;

	return session->connection && !session->waiting ? connection_fd(session->connection) : -1;
}

static const char *single_token(const struct lock *lock)
{
	return ((const struct single *)lock)->token;
}

const struct backend single_backend = {
	.open = single_open,
	.close = single_close,
	.ask = single_ask,
	.is_busy = single_is_busy,
	.answer = single_answer,
	.learn = single_learn,
	.listen = single_listen,
	.renew = single_renew,
	.release = single_release,
	.part = single_part,
	.hear = single_hear,
	.force = single_force,
	.verify = single_verify,
	.reset = single_reset,
	.watch_fd = single_watch_fd,
	.token = single_token,
	.survey = single_survey,
	.look_open = single_look_open,
	.look = single_look,
	.look_close = single_look_close,
	.examine = fitness_examine,
};
