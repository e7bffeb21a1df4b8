/* Requests about a lock in etcd, from 3.4 on. */
#include "etcd/etcd_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "lock/token.h"
#include "net/server.h"

int64_t etcd_seconds(int64_t ms)
{
	return (ms + 999) / 1000;
}

int64_t etcd_seconds_to_go(const struct etcd_lock *e)
{
	return etcd_seconds(lock_ttl_ms(&e->request, e->lock.granted_at));
}

/* The first lease of an attempt, by its token and the lock's range: so a process that knows these
 * knows the key. */
static int64_t lease_of(const char *token, const char *range)
{
	return (int64_t)(hash_text(hash_text(HASH_BASIS, token), range) & INT64_MAX) | 1;
}

void etcd_begin(struct lock *lock)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;

	e->own = (struct etcd_contender){0};
	e->lock.asked = false;
	e->proved_at = e->kept_at = e->claim_at = 0;
	e->claim = 0;
	token_begin(&e->request, e->lock.token);
	e->own.is = (struct contender){.id = e->lock.token,
		.mode = e->request.mode,
		.permits = e->request.permits,
		.detached = e->request.detached,
		.ttl_ms = etcd_seconds(e->request.ttl_ms) * 1000};
	e->own.least_ms = e->request.detached ? e->request.at_least_ms : 0;
	e->own.lease = lease_of(e->lock.token, e->from);
	etcd_key_own(e->request.prefix, e->request.name, e->own.lease, e->key);
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

/* Takes over the answer. */
static enum lock_result learn(struct etcd_lock *e, json_t *answer, const json_t *kvs,
	struct etcd_queue *queue, struct failure *failure)
{
	if (!etcd_queue_read(queue, answer, kvs)) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return LOCK_FAILED;
	}
	if (queue->format > LOCK_FORMAT) {
		lock_fail_format(failure, e->server->text, queue->format);
		return LOCK_FAILED;
	}
	e->revision = queue->revision;
	return LOCK_GRANTED;
}

enum lock_result etcd_transact(struct etcd_lock *e, json_t *when, json_t *then, json_t *otherwise,
	struct deadline deadline, bool *done, struct etcd_queue *queue, struct failure *failure)
{
	json_t *body =
		json_pack("{so* so* so*}", "compare", when, "success", then, "failure", otherwise);
	json_t *answer = NULL;
	struct etcd_queue unread = {0}, *into = queue ? queue : &unread;
	enum lock_result result =
		gateway_call(&e->gateway, "v3/kv/txn", body, deadline, &answer, failure);

	*into = (struct etcd_queue){0};
	if (result == LOCK_GRANTED) {
		*done = json_is_true(json_object_get(answer, "succeeded"));
		result = learn(e, answer, find_range(answer), into, failure);
	}
	if (!queue)
		etcd_queue_free(&unread);
	return result;
}

enum lock_result etcd_read(struct etcd_lock *e, struct deadline deadline, struct etcd_queue *queue,
	struct failure *failure)
{
	json_t *answer = NULL;
	enum lock_result result = gateway_call(&e->gateway, "v3/kv/range",
		json_pack("{ss ss}", "key", e->from, "range_end", e->to), deadline, &answer,
		failure);

	*queue = (struct etcd_queue){0};
	if (result != LOCK_GRANTED)
		return result;
	return learn(e, answer, json_object_get(answer, "kvs"), queue, failure);
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
	if (answer && ms < 0) /* the lease has ended */
		ms = 0;
	json_decref(answer);
	return ms;
}

/* --- The own key ----------------------------------------------------------------------------- */

struct etcd_contender *etcd_find_own(struct etcd_lock *e, const struct etcd_queue *queue)
{
	struct etcd_contender *own = etcd_queue_find(queue, e->key);

	if (!own || strcmp(own->is.id, e->lock.token) != 0 ||
		(e->own.is.place != 0 && own->is.place != e->own.is.place))
		return NULL;
	e->own.is.place = own->is.place;
	e->own.mod = own->mod;
	return own;
}

char *etcd_value(struct etcd_lock *e, enum contender_state state)
{
	e->own.is.state = state;
	return etcd_contender_value(&e->own, e->request.self);
}
