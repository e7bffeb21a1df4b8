/* The steps of a holder: it renews and releases. And the steps of another dlock on a holder, by its
 * token or by force. */
#include <bsd/string.h>
#include <stdlib.h>
#include <string.h>

#include "base/wakeup.h"
#include "etcd/etcd_lock.h"
#include "lock/token.h"

/* --- Adopting -------------------------------------------------------------------------------- */

/* NULL with failure: no detached lock is held by our token. */
static const struct contender *find_detached(
	const struct etcd_lock *e, const struct etcd_queue *queue, struct failure *failure)
{
	const struct contender *c = contenders_find(&queue->all, e->lock.token);

	if (c && c->detached && c->state == CONTENDER_HOLDING)
		return c;
	token_refuse(c && !c->foreign && c->state == CONTENDER_HOLDING, failure);
	return NULL;
}

/* The rest of --at-least, 0 or more, by the age of the lease. The lease began with the longer of
 * the two times, and etcd tells its rest in whole seconds. A restart of etcd begins both anew. */
static int64_t rest_of_least(struct etcd_lock *e, struct deadline deadline)
{
	int64_t least = e->own.least_ms, ttl = e->own.is.ttl_ms, left, age;

	if (least <= 0)
		return 0;
	left = etcd_lease_ms(&e->gateway, e->own.lease, deadline);
	age = etcd_seconds(least > ttl ? least : ttl) * 1000 - left - 1000;
	return left < 0 || age < 0 ? least : least > age ? least - age : 0;
}

/* The contender that we are to go on with becomes our own, as it is by now: that of a holder that
 * is dead, or of the detached lock whose token we have. LOCK_GRANTED: it is, or we have our own.
 * Its owner is the queue's. */
static enum lock_result adopt(struct etcd_lock *e, struct deadline deadline,
	struct etcd_queue *queue, struct failure *failure)
{
	bool by_token = lock_is_by_token(&e->request);
	const struct contender *found;
	enum lock_result result;

	*queue = (struct etcd_queue){0};
	if (!by_token && !lock_is_heir(&e->lock))
		return LOCK_GRANTED;
	result = etcd_read(e, deadline, queue, failure);
	if (result != LOCK_GRANTED)
		return result;
	found = by_token ? find_detached(e, queue, failure)
			 : (const struct contender *)etcd_find_own(e, queue);
	if (!found)
		return LOCK_LOST;
	e->own = *(const struct etcd_contender *)found;
	strlcpy(e->key, e->own.key, sizeof(e->key));
	e->own.is.id = e->lock.token;
	e->own.key = NULL;
	e->own.record = NULL;
	if (!by_token)
		e->own.is.owner = NULL; /* the owner is another process now */
	else
		e->request.at_least_ms = e->own.least_ms = rest_of_least(e, deadline);
	if (by_token && e->request.ttl_ms == 0)
		e->request.ttl_ms = e->own.is.ttl_ms;
	e->lock.orphaned = false;
	return LOCK_GRANTED;
}

/* --- Renewing -------------------------------------------------------------------------------- */

static enum lock_result try_move(struct etcd_lock *e, struct deadline deadline, bool *done,
	struct etcd_queue *queue, int64_t *lease, struct failure *failure)
{
	enum lock_result result = LOCK_GRANTED;

	if (*lease == 0)
		result = etcd_grant(e, lease, etcd_seconds_to_go(e), deadline, failure);
	if (result != LOCK_GRANTED)
		return result;
	return etcd_transact(e, json_pack("[o]", etcd_when(e->key, "MOD", e->own.mod)),
		json_pack("[oo]", etcd_put(e->key, etcd_value(e, e->own.is.state), *lease),
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

/* Moves the own key to a new lease: LOCK_GRANTED, LOCK_LOST, or as gateway_call. queue: to be
 * freed. */
static enum lock_result move(struct etcd_lock *e, struct deadline deadline,
	struct etcd_queue *queue, struct failure *failure)
{
	nanos asked_at = clock_now();
	enum lock_result result = LOCK_LOST;
	const struct etcd_contender *own;
	int64_t lease = 0;
	bool done = false;

	for (int i = 0; i < ETCD_TRIES; i++) {
		*queue = (struct etcd_queue){0};
		result = try_move(e, deadline, &done, queue, &lease, failure);
		if (result != LOCK_GRANTED)
			return result == LOCK_GONE ? LOCK_TIMEOUT : result;
		own = done ? NULL : etcd_find_own(e, queue);
		if (done)
			e->own.mod = queue->revision;
		if (done || (own && own->lease == lease)) {
			settle(e, lease, asked_at, deadline);
			return LOCK_GRANTED;
		}
		done = own && own->is.state != CONTENDER_RELEASED;
		etcd_queue_free(queue);
		if (!done)
			return LOCK_LOST;
	}
	return LOCK_TIMEOUT;
}

void etcd_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	struct etcd_queue found, queue = {0};

	answer->result = adopt(e, deadline, &found, &answer->failure);
	answer->fence = e->own.is.fence;
	answer->ttl_ms = etcd_seconds(e->request.ttl_ms) * 1000;
	if (e->guard.news_fd >= 0)
		wakeup_clear(e->guard.news_fd);
	if (answer->result == LOCK_GRANTED && e->own.mod == 0)
		answer->result = LOCK_LOST;
	if (answer->result == LOCK_GRANTED) {
		answer->result = move(e, deadline, &queue, &answer->failure);
		answer->asked_at = e->proved_at;
		if (answer->result == LOCK_LOST && lock_is_by_token(&e->request))
			token_refuse(false, &answer->failure);
	}
	e->own.is.owner = NULL;
	etcd_queue_free(&found);
	etcd_queue_free(&queue);
}

/* --- Releasing ------------------------------------------------------------------------------- */

static enum lock_result release_holder(
	struct etcd_lock *e, int64_t keep_ms, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_queue queue = {0};
	enum lock_result result = LOCK_GRANTED;
	bool done = false;

	for (int i = 0; i < ETCD_TRIES && !done; i++) {
		int64_t seconds = keep_ms > 0 ? etcd_seconds(keep_ms) : 0, lease = 0;
		char *value = etcd_value(e, seconds ? CONTENDER_OVER : CONTENDER_RELEASED);

		etcd_queue_free(&queue);
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
			const struct etcd_contender *own = etcd_find_own(e, &queue);

			if (own)
				e->own.lease = own->lease;
			if (!own || own->is.state == CONTENDER_RELEASED)
				break;
		}
	}
	result = done || etcd_find_own(e, &queue) ? LOCK_RELEASED : LOCK_LOST;
	etcd_queue_free(&queue);
	etcd_revoke(e, e->own.lease, deadline, &answer->failure);
	return result;
}

/* The own key, on whatever lease it is: a claim may have moved it, or another process renewed it
 * since. Then its leases: so what is still under way finds neither. */
static enum lock_result withdraw(
	struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	bool done;
	enum lock_result result = etcd_transact(e, NULL, json_pack("[o]", etcd_delete(e->key)),
		NULL, deadline, &done, NULL, &answer->failure);

	if (result == LOCK_GRANTED)
		result = etcd_revoke(e, e->own.lease, deadline, &answer->failure);
	if (e->claim != 0 && e->claim != e->own.lease && result != LOCK_FAILED)
		etcd_revoke(e, e->claim, deadline, &answer->failure);
	return result == LOCK_GRANTED || result == LOCK_GONE ? LOCK_RELEASED : result;
}

void etcd_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	int64_t keep_ms = release_terms ? release_terms->keep_ms : 0;
	struct etcd_queue found;

	etcd_wait_stop(e);
	answer->result = adopt(e, deadline, &found, &answer->failure);
	if (lock_is_by_token(&e->request))
		keep_ms = e->request.at_least_ms;
	if (answer->result != LOCK_GRANTED)
		;
	else if (e->own.mod != 0 && e->own.is.state != CONTENDER_WAITING)
		answer->result = release_holder(e, keep_ms, deadline, answer);
	else
		answer->result = withdraw(e, deadline, answer);
	e->own.is.owner = NULL;
	etcd_queue_free(&found);
	etcd_guard_stop(e);
	if (answer->result == LOCK_GONE)
		answer->result = LOCK_LOST;
	if (answer->result == LOCK_RELEASED || answer->result == LOCK_LOST)
		etcd_begin(lock);
}

/* --- Breaking -------------------------------------------------------------------------------- */

/* The holder may renew meanwhile. */
enum lock_result etcd_end(struct lock *lock, const struct contender *c, struct deadline deadline,
	struct failure *failure)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	const char *key = ((const struct etcd_contender *)c)->key;
	bool done = false;
	enum lock_result result =
		etcd_transact(e, json_pack("[o]", etcd_when(key, "CREATE", c->place)),
			json_pack("[o]", etcd_delete(key)), NULL, deadline, &done, NULL, failure);

	return result == LOCK_GRANTED && !done ? LOCK_GONE : result;
}

void etcd_force(struct lock *lock, lock_holder_taker *tell, void *context, struct deadline deadline,
	struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	struct etcd_queue queue;

	answer->result = etcd_read(e, deadline, &queue, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		contest_force(&e->contest, &queue.all, tell, context, deadline, answer);
	etcd_queue_free(&queue);
}
