#include "etcd/etcd_lock.h"

#include <bsd/string.h>
#include <stdlib.h>
#include <string.h>

#include "base/wakeup.h"

#define TRIES 8 /* of a transaction whose conditions others changed meanwhile */

int64_t etcd_seconds(int64_t ms)
{
	return (ms + 999) / 1000;
}

int64_t etcd_seconds_first(const struct etcd_lock *e)
{
	const struct lock_request *request = &e->request;

	return etcd_seconds(
		request->ttl_ms > request->at_least_ms ? request->ttl_ms : request->at_least_ms);
}

/* FNV-1a. */
int64_t etcd_lease_of(const char *token, const char *range)
{
	const char *const texts[] = {token, range};
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (int i = 0; i < 2; i++)
		for (const char *at = texts[i]; *at != '\0'; at++)
			hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	return (int64_t)(hash & INT64_MAX) | 1;
}

/* --- Requests -------------------------------------------------------------------------------- */

enum lock_result etcd_grant(struct etcd_lock *e, int64_t *id, int64_t seconds,
	struct deadline deadline, struct failure *failure)
{
	json_t *answer = NULL;
	enum lock_result result = gateway_call(&e->gateway, "v3/lease/grant",
		json_pack("{sI sI}", "TTL", (json_int_t)seconds, "ID", (json_int_t)*id), deadline,
		&answer, failure);

	/* An answer was lost: the try before this one has had it. */
	if (result == LOCK_FAILED && *id != 0 && strstr(failure->text, "lease already exists"))
		return LOCK_GRANTED;
	if (result == LOCK_GRANTED)
		*id = json_number(answer, "ID");
	json_decref(answer);
	return result;
}

enum lock_result etcd_revoke(
	struct etcd_lock *e, int64_t id, struct deadline deadline, struct failure *failure)
{
	json_t *answer = NULL;
	enum lock_result result = gateway_call(&e->gateway, "v3/lease/revoke",
		json_pack("{sI}", "ID", (json_int_t)id), deadline, &answer, failure);

	json_decref(answer);
	return result;
}

json_t *etcd_when(const char *key, const char *target, int64_t revision)
{
	return json_pack("{ss ss ss sI}", "key", key, "target", target, "result", "EQUAL",
		*target == 'C' ? "create_revision" : "mod_revision", (json_int_t)revision);
}

json_t *etcd_when_empty(const struct etcd_lock *e)
{
	return json_pack("{ss ss ss ss si}", "key", e->from, "range_end", e->to, "target", "CREATE",
		"result", "EQUAL", "create_revision", 0);
}

json_t *etcd_put(const char *key, char *value, int64_t lease)
{
	json_t *put = json_pack("{s{ss ss sI sb}}", "request_put", "key", key, "value",
		value ? value : "", "lease", (json_int_t)lease, "ignore_lease", lease == 0);

	free(value);
	return put;
}

json_t *etcd_mark_released(const struct contender *contender, int64_t lease)
{
	struct contender changed = *contender;

	changed.state = CONTENDER_RELEASED;
	return etcd_put(contender->key, contender_rewrite(&changed), lease);
}

json_t *etcd_delete(const char *key)
{
	return json_pack("{s{ss}}", "request_delete_range", "key", key);
}

json_t *etcd_range(const struct etcd_lock *e)
{
	return json_pack("{s{ss ss}}", "request_range", "key", e->from, "range_end", e->to);
}

/* The kvs of the transaction's range, if it had one. */
static const json_t *find_range(const json_t *answer)
{
	const json_t *responses = json_object_get(answer, "responses");
	const json_t *range = NULL;

	for (size_t i = 0; i < json_array_size(responses) && !range; i++)
		range = json_object_get(json_array_get(responses, i), "response_range");
	return json_object_get(range, "kvs");
}

static enum lock_result fail_memory(struct failure *failure)
{
	failure_set(failure, EXIT_SYSTEM, "out of memory");
	return LOCK_FAILED;
}

enum lock_result etcd_transact(struct etcd_lock *e, json_t *when, json_t *then, json_t *otherwise,
	struct deadline deadline, bool *done, struct queue *queue, struct failure *failure)
{
	json_t *body =
		json_pack("{so* so* so*}", "compare", when, "success", then, "failure", otherwise);
	json_t *answer = NULL;
	enum lock_result result =
		gateway_call(&e->gateway, "v3/kv/txn", body, deadline, &answer, failure);

	*queue = (struct queue){0};
	if (result != LOCK_GRANTED)
		return result;
	*done = json_is_true(json_object_get(answer, "succeeded"));
	if (!queue_read(queue, answer, find_range(answer)))
		return fail_memory(failure);
	e->revision = queue->revision;
	return LOCK_GRANTED;
}

enum lock_result etcd_read(
	struct etcd_lock *e, struct deadline deadline, struct queue *queue, struct failure *failure)
{
	json_t *answer = NULL;
	enum lock_result result = gateway_call(&e->gateway, "v3/kv/range",
		json_pack("{ss ss}", "key", e->from, "range_end", e->to), deadline, &answer,
		failure);

	*queue = (struct queue){0};
	if (result != LOCK_GRANTED)
		return result;
	if (!queue_read(queue, answer, json_object_get(answer, "kvs")))
		return fail_memory(failure);
	e->revision = queue->revision;
	return LOCK_GRANTED;
}

int64_t etcd_lease_ms(struct gateway *gateway, int64_t lease, struct deadline deadline)
{
	json_t *answer = NULL;
	struct failure unheard;
	int64_t ms = -1;

	if (lease != 0 && gateway_call(gateway, "v3/lease/timetolive",
				  json_pack("{sI}", "ID", (json_int_t)lease), deadline, &answer,
				  &unheard) == LOCK_GRANTED)
		ms = json_number(answer, "TTL") * 1000;
	if (answer && ms < 0) /* it has ended */
		ms = 0;
	json_decref(answer);
	return ms;
}

/* --- The own key ----------------------------------------------------------------------------- */

const struct contender *etcd_find_own(struct etcd_lock *e, const struct queue *queue)
{
	const struct contender *own = queue_find(queue, e->key);

	if (!own || strcmp(own->token, e->lock.token) != 0 ||
		(e->own.create != 0 && own->create != e->own.create))
		return NULL;
	e->own.create = own->create;
	e->own.mod = own->mod;
	return own;
}

char *etcd_value(struct etcd_lock *e, enum contender_state state)
{
	const struct lock_request *request = &e->request;
	struct contender *own = &e->own;

	own->state = state;
	own->token = e->lock.token;
	own->mode = request->mode;
	own->permits = request->permits;
	own->detached = request->detached;
	own->hold = request->hold;
	own->ttl_ms = etcd_seconds(request->ttl_ms) * 1000;
	return contender_value(own, &request->self);
}

/* --at-least counts from the grant, by this host's wall clock, which may be set: so at the most as
 * it was asked for. */
static int64_t seconds_to_go(const struct etcd_lock *e)
{
	int64_t had = (clock_wall_us() - e->own.since_us) / 1000, least = e->request.at_least_ms;

	if (e->own.state == CONTENDER_HOLDING && had > 0)
		least -= had;
	return etcd_seconds(e->request.ttl_ms > least ? e->request.ttl_ms : least);
}

/* The longest TTL of those inside one: its place must last as long as any of them is sure of it. */
static int64_t seconds_of_all(const struct queue *queue, int64_t around, int64_t seconds)
{
	for (size_t i = 0; i < queue->count; i++) {
		const struct contender *c = &queue->list[i];

		if (c->state == CONTENDER_INSIDE && c->around == around &&
			etcd_seconds(c->ttl_ms) > seconds)
			seconds = etcd_seconds(c->ttl_ms);
	}
	return seconds;
}

/* One inside another also moves the place of that one, once that has ended. */
static enum lock_result move_inside(struct etcd_lock *e, struct deadline deadline, bool *done,
	struct queue *queue, int64_t *lease, struct failure *failure)
{
	struct queue seen;
	enum lock_result result = etcd_read(e, deadline, &seen, failure);
	const struct contender *outer = queue_find_created(&seen, e->own.around);
	json_t *then = json_array();

	if (result == LOCK_GRANTED && (!etcd_find_own(e, &seen) || !outer))
		result = LOCK_LOST;
	if (result == LOCK_GRANTED)
		result = etcd_grant(e, lease,
			seconds_of_all(&seen, e->own.around, etcd_seconds(e->request.ttl_ms)),
			deadline, failure);
	if (result == LOCK_GRANTED) {
		json_array_append_new(
			then, etcd_put(e->key, etcd_value(e, CONTENDER_INSIDE), *lease));
		if (outer->state == CONTENDER_OVER)
			json_array_append_new(
				then, etcd_put(outer->key, contender_rewrite(outer), *lease));
		result = etcd_transact(e,
			json_pack("[oo]", etcd_when(e->key, "MOD", e->own.mod),
				etcd_when(outer->key, "MOD", outer->mod)),
			json_incref(then), json_pack("[o]", etcd_range(e)), deadline, done, queue,
			failure);
	}
	json_decref(then);
	queue_free(&seen);
	return result;
}

static enum lock_result move_own(struct etcd_lock *e, struct deadline deadline, bool *done,
	struct queue *queue, int64_t *lease, struct failure *failure)
{
	enum lock_result result = LOCK_GRANTED;

	if (e->own.state == CONTENDER_INSIDE)
		return move_inside(e, deadline, done, queue, lease, failure);
	if (*lease == 0)
		result = etcd_grant(e, lease, seconds_to_go(e), deadline, failure);
	if (result != LOCK_GRANTED)
		return result;
	return etcd_transact(e, json_pack("[o]", etcd_when(e->key, "MOD", e->own.mod)),
		json_pack("[oo]", etcd_put(e->key, etcd_value(e, e->own.state), *lease),
			etcd_range(e)),
		json_pack("[o]", etcd_range(e)), deadline, done, queue, failure);
}

/* The own key is on that lease now; the old one is of no more use. */
static void settle(struct etcd_lock *e, int64_t lease, nanos asked_at, struct deadline deadline)
{
	int64_t old = e->own.lease;
	struct failure unheard;

	e->own.lease = lease;
	e->proved_at = asked_at;
	etcd_revoke(e, old, deadline, &unheard);
}

enum lock_result etcd_move(
	struct etcd_lock *e, struct deadline deadline, struct queue *queue, struct failure *failure)
{
	nanos asked_at = clock_now();
	enum lock_result result = LOCK_LOST;
	const struct contender *own;
	int64_t lease = 0;
	bool done = false;

	for (int i = 0; i < TRIES; i++) {
		*queue = (struct queue){0};
		result = move_own(e, deadline, &done, queue, &lease, failure);
		if (result != LOCK_GRANTED)
			return result == LOCK_GONE ? LOCK_TIMEOUT : result;
		own = done ? NULL : etcd_find_own(e, queue);
		if (done)
			e->own.mod = queue->revision;
		if (done || (own && own->lease == lease)) {
			settle(e, lease, asked_at, deadline);
			return LOCK_GRANTED;
		}
		done = own && own->state != CONTENDER_RELEASED;
		e->joined = e->joined || done; /* who else writes it is inside */
		queue_free(queue);
		if (!done)
			return LOCK_LOST;
	}
	return LOCK_TIMEOUT;
}

/* --- Renewing -------------------------------------------------------------------------------- */

static enum lock_result fail_token(const struct contender *c, struct failure *failure)
{
	failure_set(failure, EXIT_BUSY, "%s",
		c ? "the token is that of a holder that still runs and gives the lock back itself; "
		    "--force breaks it"
		  : "not held with this token: it is wrong, or has expired");
	return LOCK_LOST;
}

/* The holder that has the token of a detached lock; LOCK_GRANTED. */
static enum lock_result find_detached(struct etcd_lock *e, struct deadline deadline,
	struct queue *queue, const struct contender **found, struct failure *failure)
{
	enum lock_result result = etcd_read(e, deadline, queue, failure);

	if (result != LOCK_GRANTED)
		return result;
	*found = queue_find_token(queue, e->lock.token);
	if (!*found || (*found)->state == CONTENDER_RELEASED)
		return fail_token(NULL, failure);
	return (*found)->detached && (*found)->state == CONTENDER_HOLDING
		       ? LOCK_GRANTED
		       : fail_token(*found, failure);
}

static enum lock_result renew_found(struct etcd_lock *e, const struct contender *held,
	struct deadline deadline, struct lock_answer *answer)
{
	int64_t seconds = etcd_seconds(e->request.ttl_ms ? e->request.ttl_ms : held->ttl_ms);
	struct queue queue = {0};
	int64_t lease = 0;
	bool done = false;
	enum lock_result result = etcd_grant(e, &lease, seconds, deadline, &answer->failure);

	if (result == LOCK_GRANTED)
		result = etcd_transact(e, json_pack("[o]", etcd_when(held->key, "MOD", held->mod)),
			json_pack("[o]", etcd_put(held->key, contender_rewrite(held), lease)), NULL,
			deadline, &done, &queue, &answer->failure);
	queue_free(&queue);
	answer->fence = held->fence;
	answer->ttl_ms = seconds * 1000;
	if (result == LOCK_GRANTED && !done)
		return fail_token(NULL, &answer->failure);
	if (result == LOCK_GRANTED)
		etcd_revoke(e, held->lease, deadline, &answer->failure);
	return result;
}

static bool is_by_token(const struct etcd_lock *e)
{
	return e->request.detached && e->request.token;
}

void etcd_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	struct queue queue = {0};
	const struct contender *held = NULL;

	if (e->guard.news_fd >= 0)
		wakeup_clear(e->guard.news_fd);
	answer->asked_at = clock_now();
	answer->fence = e->own.fence;
	answer->ttl_ms = etcd_seconds(e->request.ttl_ms) * 1000;
	if (is_by_token(e)) {
		answer->result = find_detached(e, deadline, &queue, &held, &answer->failure);
		if (answer->result == LOCK_GRANTED)
			answer->result = renew_found(e, held, deadline, answer);
	} else if (e->own.mod == 0) {
		answer->result = LOCK_LOST;
	} else {
		answer->result = etcd_move(e, deadline, &queue, &answer->failure);
		answer->asked_at = e->proved_at;
	}
	queue_free(&queue);
}

/* --- Giving back ----------------------------------------------------------------------------- */

/* The pids of those inside; *seconds: the longest TTL of them. */
static int list_inside(
	const struct queue *queue, int64_t around, const char *but, struct lock_answer *answer)
{
	struct owner owner;
	int count = 0;

	for (size_t i = 0; i < queue->count && count < LOCK_INSIDE_MOST; i++) {
		const struct contender *c = &queue->list[i];

		if (c->state != CONTENDER_INSIDE || c->around != around || strcmp(c->key, but) == 0)
			continue;
		contender_owner(c, &owner);
		answer->inside[count++] = owner.pid;
	}
	return count;
}

/* How long the own place is to stay, in seconds; 0: no longer. */
static int64_t time_to_keep(const struct etcd_lock *e, const struct queue *queue, int64_t keep_ms,
	struct lock_answer *answer)
{
	int64_t seconds = keep_ms > 0 ? etcd_seconds(keep_ms) : 0;

	answer->inside_count = list_inside(queue, e->own.create, e->key, answer);
	if (answer->inside_count == 0)
		return seconds;
	if (seconds < etcd_seconds(e->own.ttl_ms))
		seconds = etcd_seconds(e->own.ttl_ms);
	return seconds_of_all(queue, e->own.create, seconds);
}

static enum lock_result release_holder(
	struct etcd_lock *e, int64_t keep_ms, struct deadline deadline, struct lock_answer *answer)
{
	struct queue queue = {0};
	enum lock_result result = LOCK_GRANTED;
	bool done = false;

	if (e->joined)
		result = etcd_read(e, deadline, &queue, &answer->failure);
	if (result != LOCK_GRANTED)
		return result;
	for (int i = 0; i < TRIES && !done; i++) {
		int64_t seconds = time_to_keep(e, &queue, keep_ms, answer), lease = 0;
		char *value = etcd_value(e, seconds ? CONTENDER_OVER : CONTENDER_RELEASED);

		queue_free(&queue);
		if (seconds > 0)
			result = etcd_grant(e, &lease, seconds, deadline, &answer->failure);
		if (result != LOCK_GRANTED) {
			free(value);
			return result;
		}
		result = etcd_transact(e, json_pack("[o]", etcd_when(e->key, "MOD", e->own.mod)),
			json_pack("[o]", etcd_put(e->key, value, lease)),
			json_pack("[o]", etcd_range(e)), deadline, &done, &queue, &answer->failure);
		if (result != LOCK_GRANTED)
			return result;
		if (!done) {
			const struct contender *own = etcd_find_own(e, &queue);

			if (own)
				e->own.lease = own->lease;
			if (!own || own->state == CONTENDER_RELEASED)
				break;
		}
	}
	result = done || etcd_find_own(e, &queue) ? LOCK_RELEASED : LOCK_LOST;
	queue_free(&queue);
	etcd_revoke(e, e->own.lease, deadline, &answer->failure);
	return result;
}

/* What is to become of the place around ours; NULL: nothing. */
static json_t *end_outer(struct etcd_lock *e, const struct queue *queue,
	const struct contender *outer, struct deadline deadline, struct lock_answer *answer)
{
	int64_t lease = 0;

	if (outer->state != CONTENDER_OVER)
		return NULL;
	if (list_inside(queue, outer->create, e->key, answer) == 0)
		return etcd_mark_released(outer, e->own.lease);
	if (etcd_grant(e, &lease, seconds_of_all(queue, outer->create, 1), deadline,
		    &answer->failure) != LOCK_GRANTED)
		return NULL;
	return etcd_put(outer->key, contender_rewrite(outer), lease);
}

static enum lock_result release_inside(
	struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	enum lock_result result = LOCK_GRANTED;
	bool done = false;

	for (int i = 0; i < TRIES && !done; i++) {
		struct queue seen, queue;
		const struct contender *own, *outer;
		json_t *then = json_pack("[o]", etcd_delete(e->key)), *more;

		result = etcd_read(e, deadline, &seen, &answer->failure);
		own = etcd_find_own(e, &seen);
		outer = queue_find_created(&seen, e->own.around);
		if (result != LOCK_GRANTED || !own || !outer) {
			json_decref(then);
			queue_free(&seen);
			if (result != LOCK_GRANTED)
				return result;
			break;
		}
		e->own.lease = own->lease;
		answer->around = outer->state == CONTENDER_HOLDING;
		more = end_outer(e, &seen, outer, deadline, answer);
		if (more)
			json_array_append_new(then, more);
		result =
			etcd_transact(e, json_pack("[o]", etcd_when(outer->key, "MOD", outer->mod)),
				then, NULL, deadline, &done, &queue, &answer->failure);
		queue_free(&seen);
		queue_free(&queue);
		if (result != LOCK_GRANTED)
			return result;
	}
	answer->inside_count = 0;
	etcd_revoke(e, e->own.lease, deadline, &answer->failure);
	return done ? LOCK_RELEASED : LOCK_LOST;
}

static enum lock_result release_detached(
	struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	struct queue queue = {0};
	const struct contender *held = NULL;
	enum lock_result result = find_detached(e, deadline, &queue, &held, &answer->failure);

	if (result == LOCK_GRANTED) {
		strlcpy(e->key, held->key, sizeof(e->key));
		e->own = *held;
		e->own.token = e->lock.token;
		result = release_holder(e, 0, deadline, answer);
	}
	queue_free(&queue);
	return result;
}

/* A waiter's key has no other lease. If nothing is known of the own key, the request that was to
 * make it may have been carried out, and another process may have renewed it since. */
static enum lock_result withdraw(
	struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	struct queue queue = {0};
	enum lock_result result = LOCK_GRANTED;
	bool done;

	if (e->own.mod == 0)
		result = etcd_transact(e, NULL, json_pack("[o]", etcd_delete(e->key)), NULL,
			deadline, &done, &queue, &answer->failure);
	queue_free(&queue);
	if (result == LOCK_GRANTED)
		result = etcd_revoke(e, e->own.lease, deadline, &answer->failure);
	if (e->spare != 0 && result != LOCK_FAILED)
		etcd_revoke(e, e->spare, deadline, &answer->failure);
	return result == LOCK_GRANTED || result == LOCK_GONE ? LOCK_RELEASED : result;
}

void etcd_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	int64_t keep_ms = release_terms ? release_terms->keep_ms : 0;

	if (is_by_token(e))
		answer->result = release_detached(e, deadline, answer);
	else if (e->own.mod != 0 && e->own.state == CONTENDER_INSIDE)
		answer->result = release_inside(e, deadline, answer);
	else if (e->own.mod != 0 && e->own.state != CONTENDER_WAITING)
		answer->result = release_holder(e, keep_ms, deadline, answer);
	else
		answer->result = withdraw(e, deadline, answer);
	etcd_guard_stop(e);
	if (answer->result == LOCK_GONE)
		answer->result = LOCK_LOST;
	if (answer->result == LOCK_RELEASED || answer->result == LOCK_LOST)
		etcd_begin(e);
}

/* --- Breaking -------------------------------------------------------------------------------- */

static bool is_holder(const struct queue *queue, const struct contender *c)
{
	int rank, ahead;

	if (c->state == CONTENDER_FOREIGN)
		return !queue_obstacle(queue, c, LOCK_EXCLUSIVE, 0, &rank, &ahead);
	return c->state != CONTENDER_WAITING && c->state != CONTENDER_RELEASED;
}

static void tell_of(const struct contender *c,
	void (*tell)(const struct lock_answer *held, void *context), void *context)
{
	struct lock_answer held = {.result = LOCK_BUSY, .free_in_ms = -1};

	if (c->state == CONTENDER_INSIDE)
		return;
	if (c->state == CONTENDER_FOREIGN) {
		held.foreign = "another etcd client";
	} else {
		contender_owner(c, &held.holder);
		held.known = true;
		held.held_ms = (clock_wall_us() - c->since_us) / 1000;
	}
	tell(&held, context);
}

/* First all are marked, as they were read: so a waiter need not take them for holders still.
 * LOCK_GONE: there is none. */
static enum lock_result break_all(struct etcd_lock *e, const struct queue *queue, bool *done,
	struct deadline deadline, struct failure *failure)
{
	json_t *when = json_array(), *marks = json_array(), *deletes = json_array();
	struct queue unread = {0};
	enum lock_result result = LOCK_GONE;

	for (size_t i = 0; i < queue->count; i++) {
		const struct contender *c = &queue->list[i];

		if (!is_holder(queue, c))
			continue;
		result = LOCK_GRANTED;
		json_array_append_new(deletes, etcd_delete(c->key));
		if (c->state == CONTENDER_FOREIGN)
			continue;
		json_array_append_new(when, etcd_when(c->key, "MOD", c->mod));
		json_array_append_new(marks, etcd_mark_released(c, 0));
	}
	*done = json_array_size(marks) == 0;
	if (result == LOCK_GRANTED && !*done)
		result = etcd_transact(e, json_incref(when), json_incref(marks), NULL, deadline,
			done, &unread, failure);
	queue_free(&unread);
	if (result == LOCK_GRANTED && *done)
		result = etcd_transact(
			e, NULL, json_incref(deletes), NULL, deadline, done, &unread, failure);
	queue_free(&unread);
	json_decref(when);
	json_decref(marks);
	json_decref(deletes);
	return result;
}

void etcd_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	struct queue queue = {0};
	bool done = false;

	for (int i = 0; i < TRIES && !done; i++) {
		queue_free(&queue);
		answer->result = etcd_read(e, deadline, &queue, &answer->failure);
		if (answer->result == LOCK_GRANTED)
			answer->result = break_all(e, &queue, &done, deadline, &answer->failure);
		if (answer->result != LOCK_GRANTED)
			break;
	}
	for (size_t i = 0; done && i < queue.count; i++)
		if (is_holder(&queue, &queue.list[i]))
			tell_of(&queue.list[i], tell, context);
	queue_free(&queue);
	if (answer->result == LOCK_GRANTED)
		answer->result = done ? LOCK_RELEASED : LOCK_TIMEOUT;
}
