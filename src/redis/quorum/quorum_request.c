/* What the servers of a quorum are asked: a row per kind of request. */
#include "redis/quorum/quorum.h"

#include "base/number.h"
#include "redis/script/script.h"

#define TENTATIVE_MS 5000 /* how long a promise lives that is not confirmed */

static void write_acquire(struct quorum *quorum, const struct vote *vote, struct call *call)
{
	const struct lock_request *request = &quorum->request;

	(void)vote;
	call_begin(call, &script_acquire, &quorum->keys, quorum->lock.token);
	call_add(call, quorum->mode);
	call_add_number(call, request->ttl_ms);
	call_add_number(call, request->queues ? WAIT_LEASE_MS : 0);
	call_add_number(call, quorum->ticket);
	call_add_number(call, 0);
	call_add_number(call, 0);
	call_add_number(call, 0);
	call_add(call, quorum->text);
	call_add_number(call, lock_window_ms(&quorum->lock, request));
	call_add(call, quorum->once);
	call_add(call, "");
	call_add_number(call, single_settle(request));
	call_add_number(call, (int64_t)quorum->count);
	call_add(call, quorum->waiter);
	call_add_number(call, number_least(request->ttl_ms, TENTATIVE_MS));
}

static void write_confirm(struct quorum *quorum, const struct vote *vote, struct call *call)
{
	(void)vote;
	call_begin(call, &script_confirm, &quorum->keys, quorum->lock.token);
	call_add_number(call, (int64_t)quorum->fence);
	call_add_number(call, lock_ttl_ms(&quorum->request, quorum->granted_at));
	call_add_number(call, quorum->ticket);
	call_add(call, quorum->text);
	call_add(call, quorum->waiter);
}

static void write_renewal(struct quorum *quorum, const struct vote *vote, struct call *call)
{
	const struct lock_request *request = &quorum->request;

	if (single_by_token(request)) {
		call_begin(call, &script_detached_renew, &quorum->keys, quorum->lock.token);
		call_add_number(call, request->ttl_ms);
		return;
	}
	owner_record_text(request, quorum->text);
	owner_record_write(quorum->who, quorum->mode, vote->since_us, quorum->text);
	call_begin(call, &script_renew, &quorum->keys, quorum->lock.token);
	call_add(call, quorum->mode);
	call_add_number(call, lock_ttl_ms(request, quorum->granted_at));
	call_add_number(call, (int64_t)quorum->fence);
	call_add_number(call, (int64_t)quorum->fence);
	call_add(call, quorum->who);
	call_add_number(call, (int64_t)quorum->count);
	call_add_number(call, 1);
}

/* What follows the token in a release: of the lock, or of a place in a queue. */
static void add_release(struct quorum *quorum, struct call *call,
	const struct release_terms *release_terms, uint64_t fence, int64_t since_us, bool lost)
{
	const struct lock_request *request = &quorum->request;

	call_add(call, quorum->mode);
	call_add_number(call, release_terms->keep_ms);
	call_add_number(call, (int64_t)fence);
	call_add_number(call, (int64_t)fence);
	call_add_number(call, since_us);
	call_add_number(call, lost);
	call_add_number(call, release_terms->success);
	call_add_number(call, request->cooldown_ms);
	call_add(call, quorum->once);
	call_add_number(call, request->once_for_ms);
	call_add_number(call, 0);
}

/* A server that did not see the grant has the moment from us, as a span. */
static void add_run(struct quorum *quorum, const struct vote *vote, struct call *call)
{
	const struct release_terms *terms = &quorum->release_terms;

	if (terms->ran)
		call_add_run(call, terms->exit, vote->since_us, quorum->granted_at, quorum->text);
}

static void write_release(struct quorum *quorum, const struct vote *vote, struct call *call)
{
	if (single_by_token(&quorum->request)) {
		call_begin(call, &script_detached_release, &quorum->keys, quorum->lock.token);
		call_add(call, "");
		return;
	}
	call_begin(call, &script_release, &quorum->keys, quorum->lock.token);
	add_release(quorum, call, &quorum->release_terms, quorum->fence,
		quorum->fence ? vote->since_us : 0, quorum->lost);
	add_run(quorum, vote, call);
}

static void write_leave(struct quorum *quorum, const struct vote *vote, struct call *call)
{
	(void)vote;
	call_begin(call, &script_release, &quorum->waiter_keys, quorum->waiter);
	add_release(quorum, call, &(struct release_terms){0}, 0, 0, quorum->lost);
}

static void write_force(struct quorum *quorum, const struct vote *vote, struct call *call)
{
	(void)vote;
	call_begin(call, &script_force, &quorum->keys, quorum->lock.token);
	call_add_number(call, quorum->request.fence);
}

static void (*const writers[])(struct quorum *, const struct vote *, struct call *) = {
	[PEER_ACQUIRE] = write_acquire,
	[PEER_CONFIRM] = write_confirm,
	[PEER_RENEW] = write_renewal,
	[PEER_RELEASE] = write_release,
	[PEER_LEAVE] = write_leave,
	[PEER_FORCE] = write_force,
};

bool quorum_send(struct quorum *quorum, size_t which, enum peer_kind kind, bool in_full)
{
	struct vote *vote = &quorum->votes[which];
	unsigned tag = kind == PEER_LEAVE ? 0 : quorum->keyed; /* that answer is not read */
	struct call call;
	nanos now = clock_now();

	writers[kind](quorum, vote, &call);
	if (!peer_send(&quorum->peers[which], (struct peer_due){kind, tag}, &call, in_full))
		return false;
	if (kind == PEER_RENEW) {
		vote->renewing = vote->touched = true;
		vote->sent_at = now;
	}
	return true;
}
