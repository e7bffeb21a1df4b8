/* An attempt at a lock on a quorum, up to where it is under way; and taking it back. */
#include "redis/quorum/quorum_attempt.h"

#include <string.h>

#include "redis/quorum/quorum.h"
#include "redis/quorum/quorum_release.h"
#include "redis/quorum/quorum_replies.h"
#include "redis/quorum/quorum_tally.h"
#include "redis/quorum/quorum_wait.h"
#include "redis/script/script.h"
#include "redis/single/single.h"

#define LEASE_MS     2000 /* of a waiter that does not listen yet; as LEASE in prelude.lua */
#define TENTATIVE_MS 5000 /* how long a promise lives that nobody confirms */

/* --- An attempt ----------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool send_acquire(struct quorum *quorum, size_t which, bool in_full)
{
	const struct lock_request *request = &quorum->request;
	struct call call;

	call_begin(&call, &script_acquire, &quorum->keys, quorum->lock.token);
	call_add(&call, quorum->mode);
	call_add_number(&call, request->ttl_ms);
	call_add_number(&call, request->queues ? LEASE_MS : 0);
	call_add_number(&call, quorum->ticket);
	call_add_number(&call, 0);
	call_add_number(&call, 0);
	call_add_number(&call, 0);
	call_add(&call, quorum->text);
	call_add_number(&call, request->cooldown_ms);
	call_add(&call, quorum->once);
	call_add(&call, request->outer ? request->outer : "");
	call_add_number(&call, single_settle(request));
	call_add_number(&call, (int64_t)quorum->count);
	call_add(&call, quorum->waiter);
	call_add_number(&call, least(request->ttl_ms, TENTATIVE_MS));
	return peer_send(&quorum->peers[which], (struct peer_due){PEER_ACQUIRE, quorum->keyed},
		&call, in_full);
}

bool quorum_send_confirm(struct quorum *quorum, size_t which, bool in_full)
{
	struct call call;

	call_begin(&call, &script_confirm, &quorum->keys, quorum->lock.token);
	call_add_number(&call, (int64_t)quorum->fence);
	call_add_number(&call, quorum_ttl_ms(quorum));
	call_add_number(&call, quorum->ticket);
	call_add(&call, quorum->text);
	call_add(&call, quorum->waiter);
	return peer_send(&quorum->peers[which], (struct peer_due){PEER_CONFIRM, quorum->keyed},
		&call, in_full);
}

/* Asks whoever was not asked yet and can be. */
void quorum_send_out(struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];

		if (vote->kind != VOTE_NONE || !send_acquire(quorum, i, false))
			continue;
		vote->kind = VOTE_ASKED;
		vote->touched = true;
	}
}

bool quorum_repeat_acquire(struct quorum *quorum, size_t which, enum peer_kind kind)
{
	return kind == PEER_ACQUIRE && send_acquire(quorum, which, true);
}

bool quorum_begin(struct quorum *quorum, struct failure *failure)
{
	quorum_stop_listening(quorum);
	/* One that another process was killed in, perhaps: its connections are of no use. */
	if (quorum->asked) {
		quorum_leave(&quorum->lock);
		quorum_release(&quorum->lock, NULL,
			(struct deadline){.until = clock_now() + QUORUM_SHARE, .cancel_fd = -1},
			&quorum->scratch);
	}
	if (quorum->spent)
		atomic_fetch_add(quorum->attempt, 1);
	if (!quorum_sync(quorum, failure))
		return false;
	memset(quorum->votes, 0, quorum->count * sizeof(*quorum->votes));
	quorum->repeat = quorum_repeat_acquire;
	quorum->asked = quorum->spent = true;
	quorum->fence = 0;
	quorum->around.token[0] = '\0';
	quorum->asked_at = clock_now();
	quorum->cold = false;
	for (size_t i = 0; i < quorum->count; i++)
		peer_connect(&quorum->peers[i]);
	return true;
}

static bool repeat_nothing(struct quorum *quorum, size_t which, enum peer_kind kind)
{
	(void)quorum;
	(void)which;
	(void)kind;
	return false;
}

/* Written to all before any answer is awaited; and behind a request that is not answered yet, or
 * the lock would stay where that is granted late. */
void quorum_step_back(struct quorum *quorum)
{
	static const struct release_terms plain;
	nanos until = clock_now() + QUORUM_SHARE;
	size_t pending = 1;

	quorum->repeat = repeat_nothing;
	quorum->fence = 0;
	quorum->around.token[0] = '\0';
	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];
		struct peer *peer = &quorum->peers[i];

		vote->word = WORD_NONE;
		if (vote->touched && peer_is_untouched(peer))
			peer_forget(peer); /* or else it would be asked yet */
		else if (vote->touched) /* in full: what comes next does not wait for the answer */
			quorum_send_release(quorum, i, &plain, true);
	}
	while (pending > 0) {
		pending = 0;
		for (size_t i = 0; i < quorum->count; i++) {
			const struct vote *vote = &quorum->votes[i];

			pending += vote->kind != VOTE_ASKED && vote->touched &&
				   quorum->peers[i].due_count > 0;
		}
		if (pending > 0 && peers_wait(quorum->peers, quorum->count,
					   &(struct deadline){.until = until, .cancel_fd = -1}) !=
					   DEADLINE_READY)
			pending = 0;
		quorum_collect(quorum);
	}
	quorum->asked = false;
}

/* --- Asking --------------------------------------------------------------------------------- */

/* Those that may still promise the lock. */
size_t quorum_count_open(const struct quorum *quorum)
{
	size_t count = quorum_count(quorum, VOTE_ASKED);

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].kind == VOTE_NONE && !peer_is_down(&quorum->peers[i]) &&
			 !peer_is_refused(&quorum->peers[i]);
	return count;
}

/* Those to whom the request has gone. */
static size_t count_sent(const struct quorum *quorum)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].kind != VOTE_NONE && quorum->votes[i].kind != VOTE_NO &&
			 !peer_is_untouched(&quorum->peers[i]);
	return count;
}

/* Those that were asked, or will be once a connection stands. */
static size_t count_asked(const struct quorum *quorum)
{
	return quorum->count - quorum_count(quorum, VOTE_NONE) - quorum_count(quorum, VOTE_NO);
}

/* After an attempt that failed, others are let in first; and no server is asked too often. */
static enum lock_result wait_for_next(const struct quorum *quorum, struct deadline deadline)
{
	struct deadline limit = deadline;

	if (quorum->tried_at == 0)
		return LOCK_GRANTED;
	if (quorum->tried_at + NANOS_PER_SEC < limit.until)
		limit.until = quorum->tried_at + NANOS_PER_SEC;
	limit.least = 0;
	if (deadline_wait(&limit, -1, 0) == DEADLINE_CANCELLED)
		return LOCK_CANCELLED;
	return clock_now() < deadline.until ? LOCK_GRANTED : LOCK_TIMEOUT;
}

enum lock_result quorum_ask(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct quorum *quorum = (struct quorum *)lock;
	enum lock_result result = wait_for_next(quorum, deadline);
	enum deadline_end end = DEADLINE_READY;

	if (result == LOCK_GRANTED && !quorum_begin(quorum, failure))
		return LOCK_FAILED;
	while (result == LOCK_GRANTED) {
		quorum_send_out(quorum);
		quorum_collect(quorum);
		if (count_sent(quorum) >= quorum->majority) {
			quorum->child = true; /* as far as this process can know */
			return LOCK_GRANTED;
		}
		if (count_asked(quorum) + quorum_count_open(quorum) < quorum->majority)
			result = LOCK_FAILED;
		else if (end != DEADLINE_READY)
			result = end == DEADLINE_OVER ? LOCK_TIMEOUT : LOCK_CANCELLED;
		else
			end = peers_wait(quorum->peers, quorum->count, &deadline);
	}
	quorum_explain(quorum, failure);
	if (quorum->asked)
		quorum_step_back(quorum);
	quorum->tried_at = clock_now();
	return result;
}
