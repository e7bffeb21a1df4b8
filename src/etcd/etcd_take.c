/* Taking a lock: a place in the queue, and the mark that it is held. */
#include <bsd/string.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/etcd_lock.h"
#include "lock/deadlock.h"

#define FRESH_PART                                                                                 \
	4 /* of the TTL: a lease that is older gets a successor before it is relied on             \
	   */

static void decide(struct etcd_lock *e, struct queue *queue, struct deadline deadline,
	struct lock_answer *answer);

/* --- A grant --------------------------------------------------------------------------------- */

static enum lock_result grant_first(
	struct etcd_lock *e, int64_t seconds, struct deadline deadline, struct failure *failure)
{
	if (e->proved_at != 0 && e->asked)
		return LOCK_GRANTED;
	if (e->proved_at == 0)
		e->proved_at = clock_now();
	e->own.since_us = clock_wall_us();
	if (etcd_grant(e, &e->own.lease, seconds, deadline, failure) != LOCK_GRANTED)
		return failure->code == EXIT_DONE ? LOCK_TIMEOUT : LOCK_FAILED;
	e->asked = true;
	return LOCK_GRANTED;
}

static void accept_grant(struct etcd_lock *e, int64_t revision, struct lock_answer *answer)
{
	e->own.state = CONTENDER_HOLDING;
	e->own.mod = revision;
	if (e->own.create == 0)
		e->own.create = revision;
	e->own.fence = (uint64_t)revision;
	answer->result = LOCK_GRANTED;
	answer->fence = e->own.fence;
	answer->asked_at = e->proved_at;
	answer->granted_at = clock_now();
	answer->ttl_ms = etcd_seconds(e->request.ttl_ms) * 1000;
}

/* The place is gone: another is to be taken. */
static void lose_place(struct etcd_lock *e, struct lock_answer *answer)
{
	etcd_begin(e);
	answer->result = LOCK_LOST;
}

/* A lease that is to be relied on is at hand, e->spare: one that has not waited has its first from
 * just now. */
static bool prepare_lease(struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	nanos age = etcd_seconds_first(e) * NANOS_PER_SEC / FRESH_PART;

	answer->result = grant_first(e, etcd_seconds_first(e), deadline, &answer->failure);
	if (answer->result != LOCK_GRANTED)
		return false;
	if (e->kept_at == 0 && e->spare == 0) {
		e->spare = e->own.lease;
		e->spare_at = e->proved_at;
	}
	if (e->spare != 0 && clock_now() - e->spare_at < age)
		return true;
	e->spare_at = clock_now();
	e->spare = 0;
	answer->result =
		etcd_grant(e, &e->spare, etcd_seconds_first(e), deadline, &answer->failure);
	return answer->result == LOCK_GRANTED;
}

/* The own key is on it from now on. */
static void use_lease(struct etcd_lock *e)
{
	e->own.lease = e->spare;
	e->proved_at = e->spare_at;
	e->spare = 0;
}

/* Nothing is in the way, and nothing can come there: those ahead of us do not become more. */
static void claim(struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	struct queue queue;
	bool done = false;

	e->own.since_us = clock_wall_us();
	if (!prepare_lease(e, deadline, answer))
		return;
	answer->result = etcd_transact(e,
		json_pack("[o]", etcd_when(e->key, "CREATE", e->own.create)),
		json_pack("[o]", etcd_put(e->key, etcd_value(e, CONTENDER_HOLDING), e->spare)),
		NULL, deadline, &done, &queue, &answer->failure);
	e->own.state = CONTENDER_WAITING;
	queue_free(&queue);
	if (answer->result == LOCK_GONE || (answer->result == LOCK_GRANTED && !done)) {
		lose_place(e, answer);
	} else if (answer->result == LOCK_GRANTED) {
		use_lease(e);
		accept_grant(e, e->revision, answer);
	}
}

/* --- Inside another holder ------------------------------------------------------------------- */

static bool has_token(const char *tokens, const char *token)
{
	size_t length = strlen(token);

	for (const char *at = tokens; length > 0 && (at = strstr(at, token)) != NULL; at++)
		if ((at == tokens || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
			return true;
	return false;
}

/* The holder among those that the caller runs under; NULL. */
static const struct contender *find_outer(const struct etcd_lock *e, const struct queue *queue)
{
	struct owner owner;

	for (size_t i = 0; e->request.outer && i < queue->count; i++) {
		const struct contender *c = &queue->list[i];
		bool holds = c->state == CONTENDER_HOLDING;

		for (size_t j = 0; c->state == CONTENDER_OVER && j < queue->count; j++)
			holds = holds || (queue->list[j].state == CONTENDER_INSIDE &&
						 queue->list[j].around == c->create);
		if (!holds || c->detached || !has_token(e->request.outer, c->token))
			continue;
		contender_owner(c, &owner);
		if (strcmp(owner.host, e->request.self.host) == 0)
			return c;
	}
	return NULL;
}

/* Whether a `dlock hold` for the same process holds it, or is inside that one. */
static bool is_covered(
	const struct etcd_lock *e, const struct queue *queue, const struct contender *outer)
{
	const struct owner *self = &e->request.self;
	struct owner owner;

	for (size_t i = 0; e->request.hold && i < queue->count; i++) {
		const struct contender *c = &queue->list[i];

		if (!c->hold || (c != outer && (c->state != CONTENDER_INSIDE ||
						       c->around != outer->create)))
			continue;
		contender_owner(c, &owner);
		if (owner_is_near(&owner, self) && owner.pid == self->pid &&
			owner.start == self->start)
			return true;
	}
	return false;
}

/* Enters the own key as inside. The other's is written too: its owner is to see that it changed. */
static void join(struct etcd_lock *e, const struct contender *outer, struct deadline deadline,
	struct lock_answer *answer)
{
	struct queue queue;
	bool done = false;

	if (!prepare_lease(e, deadline, answer))
		return;
	e->own.fence = outer->fence;
	e->own.around = outer->create;
	answer->result = etcd_transact(e,
		json_pack("[o]", etcd_when(outer->key, "MOD", outer->mod)),
		json_pack("[oo]", etcd_put(e->key, etcd_value(e, CONTENDER_INSIDE), e->spare),
			etcd_put(outer->key, contender_rewrite(outer), 0)),
		json_pack("[o]", etcd_range(e)), deadline, &done, &queue, &answer->failure);
	if (answer->result == LOCK_GRANTED && done) {
		e->own.mod = e->revision;
		if (e->own.create == 0)
			e->own.create = e->revision;
		use_lease(e);
		answer->result = LOCK_WITHIN;
		answer->asked_at = e->proved_at;
	} else {
		e->own.state = CONTENDER_WAITING;
		e->own.fence = 0;
		if (answer->result == LOCK_GRANTED)
			decide(e, &queue, deadline, answer);
	}
	queue_free(&queue);
}

static bool answer_within(struct etcd_lock *e, const struct queue *queue, struct deadline deadline,
	struct lock_answer *answer)
{
	const struct contender *outer = find_outer(e, queue);

	if (!outer)
		return false;
	strlcpy(answer->holder_token, outer->token, sizeof(answer->holder_token));
	answer->fence = outer->fence;
	answer->whole = outer->mode == LOCK_EXCLUSIVE;
	answer->granted_at = clock_now();
	answer->ttl_ms = etcd_seconds(e->request.ttl_ms) * 1000;
	answer->covered = is_covered(e, queue, outer);
	answer->result = LOCK_WITHIN;
	if (outer->mode != LOCK_EXCLUSIVE && outer->mode != e->request.mode) {
		deadlock_by_mode(outer->mode, answer);
	} else if (!answer->covered && !e->request.detached) {
		join(e, outer, deadline, answer);
	}
	return true;
}

/* --- Busy ------------------------------------------------------------------------------------ */

static void answer_busy(struct etcd_lock *e, const struct queue *queue, struct deadline deadline,
	struct lock_answer *answer)
{
	const struct contender *first = queue->list, *end = first + queue->count;

	while (first < end &&
		(first->state == CONTENDER_INSIDE || first->state == CONTENDER_RELEASED))
		first++;
	answer->result = LOCK_BUSY;
	answer->look_at = NANOS_NEVER;
	answer->free_in_ms = -1;
	if (first == end || strcmp(first->key, e->key) == 0) {
		answer->foreign = "one that has lost its lease";
		answer->free_in_ms = (e->not_before - clock_now()) / NANOS_PER_MS;
		return;
	}
	answer->fence = first->fence;
	if (first->state == CONTENDER_FOREIGN) {
		answer->foreign = "another etcd client";
		answer->free_in_ms = etcd_lease_ms(&e->gateway, first->lease, deadline);
		return;
	}
	strlcpy(answer->holder_token, first->token, sizeof(answer->holder_token));
	contender_owner(first, &answer->holder);
	answer->known = answer->holder.pid != 0;
	answer->held_ms = (clock_wall_us() - first->since_us) / 1000;
}

/* --- One attempt ----------------------------------------------------------------------------- */

/* The queue was empty: the lock, if it still is. Else a place. */
static void enter(struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	struct queue queue;
	bool done = false;

	answer->result = grant_first(e, etcd_seconds_first(e), deadline, &answer->failure);
	if (answer->result != LOCK_GRANTED)
		return;
	answer->result = etcd_transact(e, json_pack("[o]", etcd_when_empty(e)),
		json_pack("[o]", etcd_put(e->key, etcd_value(e, CONTENDER_HOLDING), e->own.lease)),
		json_pack("[oo]", etcd_put(e->key, etcd_value(e, CONTENDER_WAITING), e->own.lease),
			etcd_range(e)),
		deadline, &done, &queue, &answer->failure);
	if (answer->result == LOCK_GONE)
		lose_place(e, answer);
	else if (answer->result == LOCK_GRANTED && done)
		accept_grant(e, e->revision, answer);
	else if (answer->result == LOCK_GRANTED)
		decide(e, &queue, deadline, answer);
	queue_free(&queue);
}

/* Takes a place in the queue, on a short lease. */
static void line_up(struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	struct queue queue;
	bool done;

	answer->result = grant_first(e, ETCD_PLACE_TTL, deadline, &answer->failure);
	if (answer->result != LOCK_GRANTED)
		return;
	e->kept_at = e->proved_at;
	answer->result = etcd_transact(e, NULL,
		json_pack("[oo]", etcd_put(e->key, etcd_value(e, CONTENDER_WAITING), e->own.lease),
			etcd_range(e)),
		NULL, deadline, &done, &queue, &answer->failure);
	if (answer->result == LOCK_GONE)
		lose_place(e, answer);
	else if (answer->result == LOCK_GRANTED)
		decide(e, &queue, deadline, answer);
	queue_free(&queue);
}

/* By what was read just now. */
static void decide(struct etcd_lock *e, struct queue *queue, struct deadline deadline,
	struct lock_answer *answer)
{
	const struct lock_request *request = &e->request;
	const struct contender *own = etcd_find_own(e, queue), *obstacle;
	int ahead;

	if (answer_within(e, queue, deadline, answer))
		return;
	if (e->own.create != 0 && !own) {
		lose_place(e, answer);
		return;
	}
	obstacle =
		queue_obstacle(queue, own, request->mode, request->permits, &answer->rank, &ahead);
	if (!obstacle && !own) {
		enter(e, deadline, answer);
	} else if (!own && request->queues) {
		etcd_remember(e, queue);
		line_up(e, deadline, answer);
	} else if (!etcd_heed_vanished(e, queue, deadline) && !obstacle) {
		claim(e, deadline, answer);
	} else {
		/* Of permits any of those ahead may be the one that comes free. */
		bool any = request->watched || !obstacle ||
			   (request->mode == LOCK_PERMITS && ahead == request->permits);

		strlcpy(e->obstacle, any ? "" : obstacle->key, sizeof(e->obstacle));
		e->alone = ahead == 1;
		answer_busy(e, queue, deadline, answer);
		etcd_remember(e, queue);
	}
}

static void look(struct etcd_lock *e, struct deadline deadline, struct lock_answer *answer)
{
	struct queue queue;

	answer->result = etcd_read(e, deadline, &queue, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		decide(e, &queue, deadline, answer);
	queue_free(&queue);
}

/* First a look: that costs little, and what is written depends on it. */
void etcd_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	bool clear = e->clear;

	e->clear = false;
	answer->asked_at = clock_now();
	answer->rank = -1;
	if (e->own.create != 0 && clear)
		claim(e, deadline, answer);
	else
		look(e, deadline, answer);
	if (!e->request.queues && answer->result == LOCK_BUSY)
		answer->rank = -1;
}
