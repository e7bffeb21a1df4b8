/* Taking a lock: a place in the queue, and the mark that it is held. */
#include <bsd/string.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/etcd_lock.h"
#include "net/server.h"

#define FRESH_PART                                                                                 \
	4 /* of the TTL: a lease that is older gets a successor before it is relied on             \
	   */

#define FIRST_LIMIT (1500 * NANOS_PER_MS) /* for a first answer; then it is asked for a leader */

/* --- A grant --------------------------------------------------------------------------------- */

static enum lock_result grant_first(
	struct etcd_lock *e, int64_t seconds, struct deadline deadline, struct failure *failure)
{
	if (e->proved_at != 0 && e->lock.asked)
		return LOCK_GRANTED;
	if (e->proved_at == 0)
		e->proved_at = clock_now();
	e->own.is.since_us = clock_wall_us();
	if (etcd_grant(e, &e->own.lease, seconds, deadline, failure) != LOCK_GRANTED)
		return failure->code == EXIT_DONE ? LOCK_TIMEOUT : LOCK_FAILED;
	e->lock.asked = true;
	return LOCK_GRANTED;
}

static void accept_grant(struct etcd_lock *e, int64_t revision, struct lock_answer *answer)
{
	e->own.is.state = CONTENDER_HOLDING;
	e->own.mod = revision;
	if (e->own.is.place == 0)
		e->own.is.place = revision;
	e->own.is.fence = (uint64_t)revision;
	answer->result = LOCK_GRANTED;
	answer->fence = e->own.is.fence;
	answer->asked_at = e->proved_at;
	answer->granted_at = clock_now();
	answer->ttl_ms = etcd_seconds(e->request.ttl_ms) * 1000;
}

/* A lease that is to be relied on is at hand, e->claim: one that has not waited has its first from
 * just now. */
static bool prepare_lease(struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	nanos age = etcd_seconds_to_go(e) * NANOS_PER_SEC / FRESH_PART;

	answer->result = grant_first(e, etcd_seconds_to_go(e), deadline, &answer->failure);
	if (answer->result != LOCK_GRANTED)
		return false;
	if (e->kept_at == 0 && e->claim == 0) {
		e->claim = e->own.lease;
		e->claim_at = e->proved_at;
	}
	if (e->claim != 0 && clock_now() - e->claim_at < age)
		return true;
	e->claim_at = clock_now();
	e->claim = 0;
	answer->result =
		etcd_grant(e, &e->claim, etcd_seconds_to_go(e), deadline, &answer->failure);
	return answer->result == LOCK_GRANTED;
}

/* The own key is on it from now on. */
static void use_lease(struct etcd_lock *e)
{
	e->own.lease = e->claim;
	e->proved_at = e->claim_at;
	e->claim = 0;
}

/* Nothing is in the way, and nothing can come there: those ahead of us do not become more. */
static void claim(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	bool done = false;

	e->own.is.since_us = clock_wall_us();
	if (!prepare_lease(e, deadline, answer))
		return;
	answer->result = etcd_transact(e,
		json_pack("[o]", etcd_when(e->key, "CREATE", e->own.is.place)),
		json_pack("[o]", etcd_put(e->key, etcd_value(e, CONTENDER_HOLDING), e->claim)),
		NULL, deadline, &done, NULL, &answer->failure);
	e->own.is.state = CONTENDER_WAITING;
	if (answer->result == LOCK_GRANTED && !done) {
		answer->result = LOCK_LOST;
	} else if (answer->result == LOCK_GRANTED) {
		use_lease(e);
		accept_grant(e, e->revision, answer);
	}
}

/* --- One attempt ----------------------------------------------------------------------------- */

/* first: the queue was empty: the lock, if it still is. Else a place, on a short lease. */
static void enter(
	struct lock *lock, bool first, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	struct etcd_queue queue;
	bool done = false;
	json_t *place;

	answer->result = grant_first(
		e, first ? etcd_seconds_to_go(e) : ETCD_PLACE_TTL, deadline, &answer->failure);
	if (answer->result != LOCK_GRANTED)
		return;
	if (!first)
		e->kept_at = e->proved_at;
	place = json_pack("[oo]", etcd_put(e->key, etcd_value(e, CONTENDER_WAITING), e->own.lease),
		etcd_range(e));
	answer->result =
		first ? etcd_transact(e, json_pack("[o]", etcd_when_empty(e)),
				json_pack("[o]", etcd_put(e->key, etcd_value(e, CONTENDER_HOLDING),
							 e->own.lease)),
				place, deadline, &done, &queue, &answer->failure)
		      : etcd_transact(
				e, NULL, place, NULL, deadline, &done, &queue, &answer->failure);
	if (answer->result == LOCK_GRANTED && first && done)
		accept_grant(e, e->revision, answer);
	else if (answer->result == LOCK_GRANTED) {
		e->own.is.state = CONTENDER_WAITING;
		contest_decide(&e->contest, &queue.all, deadline, answer);
	}
	etcd_queue_free(&queue);
}

static struct contender *find_own(struct lock *lock, const struct contenders *all, bool *lost)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	struct etcd_contender *own = etcd_find_own(e, (const struct etcd_queue *)all);

	*lost = !own && e->own.is.place != 0;
	return own ? &own->is : NULL;
}

/* How long it may take at most is known of a foreign client's lease. */
static void wait_for(struct lock *lock, struct contenders *all, const struct contender *holder,
	const struct contender *obstacle, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;

	(void)all;
	if (holder && holder->foreign)
		answer->free_in_ms = etcd_lease_ms(
			&e->gateway, ((const struct etcd_contender *)holder)->lease, deadline);
	strlcpy(e->obstacle, obstacle ? ((const struct etcd_contender *)obstacle)->key : "",
		sizeof(e->obstacle));
}

const struct contest_ops etcd_contest = {
	.foreign = ETCD_FOREIGN,
	.find_own = find_own,
	.enter = enter,
	.claim = claim,
	.wait_for = wait_for,
	.end = etcd_end,
};

/* As etcd_read, of a server that has not answered yet. A request that came while it had no leader
 * may stay without an answer though there is one now: another is made. */
static enum lock_result read_first(struct etcd_lock *e, struct deadline deadline,
	struct etcd_queue *queue, struct failure *failure)
{
	enum lock_result result =
		etcd_read(e, deadline_within(deadline, FIRST_LIMIT), queue, failure);

	if (result != LOCK_TIMEOUT || deadline_is_over(&deadline))
		return result;
	if (!gateway_lacks_leader(&e->gateway, deadline))
		return etcd_read(e, deadline, queue, failure);
	failure_set(failure, EXIT_UNREACHABLE, "%s has no leader", e->server->text);
	failure->passes = true;
	return LOCK_FAILED;
}

static void look(struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_queue queue;

	answer->result = e->revision == 0 ? read_first(e, deadline, &queue, &answer->failure)
					  : etcd_read(e, deadline, &queue, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		contest_decide(&e->contest, &queue.all, deadline, answer);
	etcd_queue_free(&queue);
}

/* First a look: that costs little, and what is written depends on it. */
void etcd_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;

	etcd_wait_stop(e);
	answer->asked_at = clock_now();
	look(e, deadline, answer);
	if (answer->result != LOCK_GONE && answer->result != LOCK_LOST)
		return;
	answer->result = LOCK_LOST; /* our lease or our key: the next attempt has others */
	etcd_begin(lock);
}
