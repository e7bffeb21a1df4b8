/* An attempt at a lock on a quorum, up to where it is under way; and taking it back. */
#include "redis/quorum/quorum.h"

#include <string.h>

void quorum_send_out(struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];

		if (vote->kind != VOTE_NONE || !quorum_send(quorum, i, PEER_ACQUIRE, false))
			continue;
		vote->kind = VOTE_ASKED;
		vote->touched = true;
		quorum->enrolled |= quorum->request.queues;
	}
}

static void take_back(struct quorum *quorum)
{
	quorum_release(&quorum->lock, NULL,
		(struct deadline){.until = clock_now() + QUORUM_SHARE, .cancel_fd = -1},
		&quorum->scratch);
}

bool quorum_begin(struct quorum *quorum, struct failure *failure)
{
	quorum_stop_listening(quorum);
	/* One that another process was killed in, perhaps: its connections are of no use. */
	if (quorum->asked) {
		quorum_leave(&quorum->lock);
		take_back(quorum);
	}
	if (quorum->spent)
		atomic_fetch_add(quorum->attempt, 1);
	if (!quorum_sync(quorum, failure))
		return false;
	memset(quorum->votes, 0, quorum->count * sizeof(*quorum->votes));
	quorum->repeats = QUORUM_REPEAT(PEER_ACQUIRE);
	quorum->asked = quorum->spent = true;
	quorum->fence = 0;
	quorum->around.token[0] = '\0';
	quorum->asked_at = clock_now();
	quorum->cold = false;
	quorum_connect_all(quorum);
	return true;
}

static bool owes_release(const struct vote *vote, const struct peer *peer)
{
	return vote->kind != VOTE_ASKED && vote->touched && peer->due_count > 0;
}

/* Written to all before any answer is awaited. Also written behind a request that is not answered
 * yet: else the lock would stay if that is granted late. */
void quorum_step_back(struct quorum *quorum)
{
	struct deadline limit = {.until = clock_now() + QUORUM_SHARE, .cancel_fd = -1};

	quorum->repeats = 0;
	quorum->release_terms = (struct release_terms){0};
	quorum->fence = 0;
	quorum->around.token[0] = '\0';
	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];
		struct peer *peer = &quorum->peers[i];

		vote->word = WORD_NONE;
		if (vote->touched && peer_is_untouched(peer))
			peer_forget(peer); /* or else it would be asked yet */
		else if (vote->touched) /* in full: what comes next does not wait for the answer */
			quorum_send(quorum, i, PEER_RELEASE, true);
	}
	while (quorum_count_if(quorum, owes_release) > 0 &&
		peers_wait(quorum->peers, quorum->count, &limit) == DEADLINE_READY)
		quorum_collect(quorum);
	quorum_collect(quorum);
	quorum->asked = false;
}

static bool may_promise(const struct vote *vote, const struct peer *peer)
{
	return vote->kind == VOTE_ASKED || (vote->kind == VOTE_NONE && peer_may_answer(peer));
}

size_t quorum_count_open(const struct quorum *quorum)
{
	return quorum_count_if(quorum, may_promise);
}

static bool is_sent(const struct vote *vote, const struct peer *peer)
{
	return vote->kind != VOTE_NONE && vote->kind != VOTE_NO && !peer_is_untouched(peer);
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
		if (quorum_count_if(quorum, is_sent) >= quorum->majority) {
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
	if (quorum->asked && result == LOCK_CANCELLED)
		take_back(quorum); /* the places in the queues, too */
	else if (quorum->asked)
		quorum_step_back(quorum);
	quorum->tried_at = clock_now();
	return result;
}
