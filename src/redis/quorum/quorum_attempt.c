/* An attempt at a lock on a quorum: promises, confirmations, taking it back, and the next one. */
#include "redis/quorum/quorum.h"

#include <bsd/string.h>
#include <string.h>

#include "base/number.h"
#include "redis/link/connection.h"
#include "redis/script/replies.h"

/* A detached lock is taken once and for long: slower servers get as much time as in a third try. */
#define DETACHED_TRIES 2
#define ATTEMPT_MOST   (5 * NANOS_PER_SEC)
#define PAUSE_LEAST    (5 * NANOS_PER_MS)
#define PAUSE_MOST     NANOS_PER_SEC
#define TRIES_MOST     10 /* in a row, while the lock has no holder */

/* Asks each server that was not asked yet and can be. */
static void send_out(struct quorum *quorum)
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

/* Another attempt, with no votes yet; its connections are begun. What is left of the last one is
 * taken back. */
static bool begin(struct quorum *quorum, struct failure *failure)
{
	quorum_stop_listening(quorum);
	if (quorum->asked)
		take_back(quorum);
	if (quorum->spent)
		atomic_fetch_add(&quorum->shared->attempt, 1);
	if (!quorum_sync(quorum, failure))
		return false;
	memset(quorum->votes, 0, quorum->count * sizeof(*quorum->votes));
	quorum->repeats = QUORUM_REPEAT(PEER_ACQUIRE);
	quorum->asked = quorum->spent = true;
	quorum->fence = 0;
	quorum->asked_at = clock_now();
	quorum->cold = false;
	quorum_connect_all(quorum);
	return true;
}

static bool owes_release(const struct vote *vote, const struct peer *peer)
{
	return vote->kind != VOTE_ASKED && vote->touched && peer->due_count > 0;
}

/* Tells all that were asked to forget this attempt, and waits a moment for those that promised.
 * Written to all before any answer is awaited. Also written behind a request that is not answered
 * yet: else the lock would stay if that is granted late. */
static void step_back(struct quorum *quorum)
{
	struct deadline limit = {.until = clock_now() + QUORUM_SHARE, .cancel_fd = -1};

	quorum->repeats = 0;
	quorum->release_terms = (struct release_terms){0};
	quorum->fence = 0;
	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];
		struct peer *peer = &quorum->peers[i];

		vote->word = WORD_NONE;
		if (vote->touched && peer_is_untouched(peer))
			peer_forget(peer); /* or else it would be asked yet */
		else if (vote->touched) /* in full: what comes next does not wait for the answer */
			quorum_send(quorum, i, PEER_RELEASE, true);
	}
	quorum_collect_while(quorum, owes_release, limit);
	quorum_collect(quorum);
	quorum->asked = false;
}

static bool may_promise(const struct vote *vote, const struct peer *peer)
{
	return vote->kind == VOTE_ASKED || (vote->kind == VOTE_NONE && peer_may_answer(peer));
}

static size_t count_open(const struct quorum *quorum)
{
	return quorum_count_if(quorum, may_promise);
}

static bool is_sent(const struct vote *vote, const struct peer *peer)
{
	return vote->kind != VOTE_NONE && vote->kind != VOTE_NO && !peer_is_untouched(peer);
}

/* The servers that were asked, or will be once a connection stands. */
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

/* LOCK_GRANTED: a majority was asked. */
static enum lock_result ask(
	struct quorum *quorum, struct deadline deadline, struct failure *failure)
{
	enum lock_result result = wait_for_next(quorum, deadline);
	enum deadline_end end = DEADLINE_READY;

	if (result == LOCK_GRANTED && !begin(quorum, failure))
		return LOCK_FAILED;
	while (result == LOCK_GRANTED) {
		send_out(quorum);
		quorum_collect(quorum);
		if (quorum_count_if(quorum, is_sent) >= quorum->majority)
			return LOCK_GRANTED;
		if (count_asked(quorum) + count_open(quorum) < quorum->majority)
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
		step_back(quorum);
	quorum->tried_at = clock_now();
	return result;
}

static bool is_decided(const struct quorum *quorum)
{
	size_t open = count_open(quorum), needed = quorum->majority;
	size_t granted = quorum_count(quorum, VOTE_GRANTED);
	size_t answered = granted + quorum_count(quorum, VOTE_BUSY);

	if (granted >= needed || quorum_find_refusal(quorum) ||
		quorum_count(quorum, VOTE_ALREADY) > 0)
		return true;
	/* That a majority can be reached at all is to be known as well. */
	return granted + open < needed && (answered >= needed || open == 0);
}

static nanos longest_attempt(const struct quorum *quorum)
{
	return number_least(ATTEMPT_MOST, quorum->request.ttl_ms * NANOS_PER_MS / 2);
}

/* Until when the slower ones are waited for once the faster ones have answered. */
static struct deadline share_limit(const struct quorum *quorum, int tries, struct deadline deadline)
{
	nanos share = QUORUM_SHARE;

	for (size_t i = 0; i < quorum->count; i++) {
		nanos took = quorum->votes[i].replied_at - quorum->asked_at;

		if (QUORUM_SHARE_TIMES * took > share)
			share = QUORUM_SHARE_TIMES * took;
	}
	share = number_least(longest_attempt(quorum), share << tries);
	deadline.until = number_least(deadline.until, quorum->asked_at + share);
	deadline.least = number_least(deadline.least, QUORUM_SHARE);
	return deadline;
}

/* Whether another may be kept waiting: by what this attempt holds of the lock, or by its answer,
 * once a majority has been heard of. */
static bool is_in_the_way(const struct quorum *quorum)
{
	size_t granted = quorum_count(quorum, VOTE_GRANTED), busy = quorum_count(quorum, VOTE_BUSY);

	return busy > 0 && (granted > 0 || busy >= quorum->majority);
}

/* The slow and the dead get as much time as there is if the attempt is in no one's way. */
static struct deadline attempt_limit(
	const struct quorum *quorum, int tries, struct deadline deadline)
{
	if (is_in_the_way(quorum))
		return share_limit(quorum, tries, deadline);
	deadline.until = number_least(deadline.until, quorum->asked_at + longest_attempt(quorum));
	return deadline;
}

/* A limit that is noticed late (deadline.h) is put off, for the rest of the step: *late, 0 at
 * first.
 */
static enum deadline_end wait_for_some(
	struct quorum *quorum, int tries, struct deadline deadline, nanos *late)
{
	struct deadline limit = attempt_limit(quorum, tries, deadline);
	enum deadline_end end;
	nanos until;

	if (*late != 0)
		limit = (struct deadline){.until = *late, .cancel_fd = deadline.cancel_fd};
	until = limit.until;
	end = peers_wait(quorum->peers, quorum->count, &limit);
	if (limit.until != until)
		*late = limit.until;
	return end;
}

static void collect_votes(struct quorum *quorum, int tries, struct deadline deadline)
{
	nanos late = 0;

	for (;;) {
		send_out(quorum);
		quorum_collect(quorum);
		if (is_decided(quorum))
			return;
		if (wait_for_some(quorum, tries, deadline, &late) != DEADLINE_READY)
			break;
	}
	quorum_collect(quorum);
}

static bool may_confirm(const struct vote *vote, const struct peer *peer)
{
	return (vote->kind == VOTE_GRANTED || vote->kind == VOTE_ASKED) && peer->due_count > 0;
}

/* No renewal will bring a detached lock to the servers that were too slow. No process stays with it
 * to repeat what goes behind a request. If a server did not know the scripts yet, it takes longer
 * than another, or than the same one by another name. */
static bool wants_all(const struct quorum *quorum)
{
	return quorum->request.detached || quorum->cold;
}

/* Also to those that have not answered yet, behind the request: what is granted late is not to vote
 * with an old counter; and to those where we wait, to leave the queue. */
static bool confirm(struct quorum *quorum, int tries, struct deadline deadline)
{
	nanos late = 0;

	quorum->repeats = QUORUM_REPEAT(PEER_ACQUIRE) | QUORUM_REPEAT(PEER_CONFIRM);
	for (size_t i = 0; i < quorum->count; i++) {
		const struct vote *vote = &quorum->votes[i];

		if (vote->kind == VOTE_GRANTED && vote->fence > quorum->fence)
			quorum->fence = vote->fence;
	}
	for (size_t i = 0; i < quorum->count; i++) {
		bool in_full = wants_all(quorum) && quorum->peers[i].due_count > 0;

		if (quorum->votes[i].touched || quorum->request.queues)
			quorum_send(quorum, i, PEER_CONFIRM, in_full);
	}
	for (;;) {
		size_t confirmed = quorum_count(quorum, VOTE_CONFIRMED);

		if (confirmed >= quorum->majority)
			return true;
		if (confirmed + quorum_count_if(quorum, may_confirm) < quorum->majority)
			return false;
		if (wait_for_some(quorum, tries, deadline, &late) != DEADLINE_READY)
			break;
		quorum_collect(quorum);
	}
	quorum_collect(quorum);
	return quorum_count(quorum, VOTE_CONFIRMED) >= quorum->majority;
}

static const struct vote *find_vote(const struct quorum *quorum, enum vote_kind kind)
{
	for (size_t i = 0; i < quorum->count; i++)
		if (quorum->votes[i].kind == kind)
			return &quorum->votes[i];
	return NULL;
}

static void report_grant(struct quorum *quorum, struct lock_answer *answer)
{
	answer->result = LOCK_GRANTED;
	answer->asked_at = quorum_proved_at(quorum);
	answer->fence = quorum->fence;
	for (size_t i = 0; i < quorum->count; i++)
		answer->unsettled |= quorum->votes[i].unsettled;
	answer->granted_at = quorum->granted_at = clock_now();
	quorum->enrolled = false;
	quorum_watch(quorum);
}

/* All but a grant; LOCK_LOST: another attempt may do better. */
static void report_refusal(struct quorum *quorum, struct lock_answer *answer)
{
	const struct failure *refusal = quorum_find_refusal(quorum);
	const struct vote *already = find_vote(quorum, VOTE_ALREADY);

	if (refusal) {
		answer->result = LOCK_FAILED;
		answer->failure = *refusal;
	} else if (already) {
		answer->result = LOCK_ALREADY;
		answer->done = already->done;
	} else {
		quorum_verdict(quorum, answer);
	}
}

/* Servers that by TLS are asked only once they have shaken hands, which others have done sooner; or
 * all that still owe an answer. */
static bool is_late(const struct quorum *quorum)
{
	bool all = wants_all(quorum);

	for (size_t i = 0; i < quorum->count; i++) {
		const struct peer *peer = &quorum->peers[i];

		if (peer->due_count > 0 &&
			(all || (quorum->votes[i].kind == VOTE_ASKED && peer->server.tls)))
			return true;
	}
	return false;
}

/* Takes in what has come since, and for so long waits for those that are late. */
static void read_late(struct quorum *quorum, struct deadline deadline)
{
	enum deadline_end end;

	deadline.least = 0;
	if (!is_late(quorum))
		deadline.until = 0;
	do {
		end = peers_wait(quorum->peers, quorum->count, &deadline);
		quorum_collect(quorum);
	} while (end == DEADLINE_READY && is_late(quorum));
}

/* Whether a request by another name of a server that is listed twice has come to light by now: both
 * names take about as long. */
static bool is_flawless(struct quorum *quorum, struct deadline deadline)
{
	nanos span = clock_now() - quorum->asked_at;

	if (wants_all(quorum))
		span += QUORUM_SHARE << (quorum->request.detached ? DETACHED_TRIES : 0);
	read_late(quorum, deadline_within(deadline, span));
	return !quorum_find_refusal(quorum);
}

static void attempt(
	struct quorum *quorum, int tries, struct deadline deadline, struct lock_answer *answer)
{
	bool promised;

	collect_votes(quorum, tries, deadline);
	if (quorum->request.detached)
		read_late(quorum, share_limit(quorum, DETACHED_TRIES, deadline));
	promised = quorum_count(quorum, VOTE_GRANTED) >= quorum->majority &&
		   quorum_count(quorum, VOTE_ALREADY) == 0;
	if (promised && !confirm(quorum, tries, deadline))
		answer->result = LOCK_LOST;
	else if (promised && is_flawless(quorum, deadline))
		report_grant(quorum, answer);
	else
		report_refusal(quorum, answer);
}

/* Before the next attempt, at random, so that the clients that split the votes do not do so again.
 * False: patience ended in it. */
static bool pause_between(const struct quorum *quorum, int tries, struct deadline deadline)
{
	nanos most = (clock_now() - quorum->asked_at + PAUSE_LEAST) << tries;

	if (most > PAUSE_MOST)
		most = PAUSE_MOST;
	deadline_pause(deadline, clock_jitter(most));
	return clock_now() < deadline.until;
}

/* Attempts until one is granted, or there is no sense in another. */
static void attempt_all(struct quorum *quorum, struct deadline deadline, struct lock_answer *answer)
{
	for (int tries = 0;; tries++) {
		attempt(quorum, tries, deadline, answer);
		/* What a server has promised beside that expires by itself. */
		if (answer->result == LOCK_GRANTED)
			return;
		/* The more queues it stands in, the more servers may be lost in the wait. */
		if (answer->result == LOCK_BUSY && quorum->request.queues)
			read_late(quorum, share_limit(quorum, DETACHED_TRIES, deadline));
		step_back(quorum);
		if (answer->result != LOCK_LOST)
			return;
		if (tries == TRIES_MOST || !pause_between(quorum, tries, deadline))
			break;
		quorum->ticket = quorum->ticket ? quorum->ticket : clock_wall_us();
		if (!begin(quorum, &answer->failure)) {
			answer->result = LOCK_FAILED;
			return;
		}
	}
	quorum_busy(quorum, answer);
}

static void learn_grant(struct quorum *quorum, const struct lock_answer *answer)
{
	quorum->fence = answer->fence;
	quorum->granted_at = answer->granted_at;
}

/* What it had was taken back. */
static void learn_denial(struct quorum *quorum, const struct lock_answer *answer)
{
	quorum->tried_at = clock_now();
	if (answer->result == LOCK_BUSY) {
		quorum->tried_at = 0;
		quorum->look_at = answer->look_at;
		quorum_record_settling(quorum, answer);
		quorum->listen_until = 0;
		quorum->foreign = answer->foreign != NULL;
	}
	quorum->asked = false;
	quorum->ticket = quorum->ticket ? quorum->ticket : clock_wall_us();
	quorum_drop_all(quorum);
}

void quorum_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;

	answer->result = ask(quorum, deadline, &answer->failure);
	if (answer->result != LOCK_GRANTED)
		return;
	lock->asked = true;
	attempt_all(quorum, deadline, answer);
	if (answer->result == LOCK_GRANTED)
		learn_grant(quorum, answer);
	else
		learn_denial(quorum, answer);
}

void quorum_take_over(struct lock *lock, const struct lock_answer *granted)
{
	struct quorum *quorum = (struct quorum *)lock;
	struct failure unheard;

	quorum_sync(quorum, &unheard);
	quorum->asked = quorum->enrolled = quorum->orphaned = true;
	if (granted)
		learn_grant(quorum, granted);
}
