#include "redis/quorum.h"

#include <bsd/stdlib.h>
#include <bsd/string.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "decimal.h"
#include "redis/connection.h"
#include "redis/script.h"
#include "redis/single.h"

#define LEASE_MS     2000 /* of a waiter that does not listen yet; as LEASE in prelude.lua */
#define TENTATIVE_MS 5000 /* how long a promise lives that nobody confirms */
#define ATTEMPT_MOST (5 * NANOS_PER_SEC)
#define SHARE_LEAST  (50 * NANOS_PER_MS) /* for the slower ones, where others compete */
#define SHARE_TIMES  4                   /* or so often what the faster ones took */
#define PAUSE_LEAST  (5 * NANOS_PER_MS)
#define PAUSE_MOST   NANOS_PER_SEC
#define TRIES_MOST   10 /* in a row, while nobody has the lock */

/* --- Tokens --------------------------------------------------------------------------------- */

static void write_token(const struct quorum *quorum, unsigned attempt, char *token)
{
	char *at = stpcpy(stpcpy(token, quorum->request.self.host), ":");

	at = stpcpy(decimal_write(at, quorum->request.self.pid), ":");
	decimal_write_hex(decimal_write_hex(at, quorum->random[0]), quorum->random[1] + attempt);
}

bool quorum_sync(struct quorum *quorum, struct failure *failure)
{
	const struct lock_request *request = &quorum->request;
	unsigned attempt = atomic_load(quorum->attempt);

	if (quorum->keyed == attempt && quorum->keys.memory)
		return true;
	quorum->keyed = attempt;
	if (request->token)
		strlcpy(quorum->token, request->token, sizeof(quorum->token));
	else
		write_token(quorum, attempt, quorum->token);
	keys_free(&quorum->keys);
	return keys_make(&quorum->keys, request->prefix, request->name, quorum->token) ||
	       failure_set(failure, EXIT_SYSTEM, "out of memory");
}

static void quorum_reset(struct lock *lock)
{
	struct quorum *quorum = (struct quorum *)lock;
	struct failure unheard;

	quorum_sync(quorum, &unheard);
	for (size_t i = 0; i < quorum->count; i++)
		peer_forget(&quorum->peers[i]);
}

/* --- An attempt ----------------------------------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t quorum_ttl_ms(const struct quorum *quorum)
{
	const struct lock_request *request = &quorum->request;
	int64_t left = request->at_least_ms;

	if (quorum->granted_at != 0)
		left -= (clock_now() - quorum->granted_at) / NANOS_PER_MS;
	return left > request->ttl_ms ? left : request->ttl_ms;
}

static int64_t wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool send_acquire(struct quorum *quorum, size_t which, bool in_full)
{
	const struct lock_request *request = &quorum->request;
	struct call call;

	call_begin(&call, &script_acquire, &quorum->keys, quorum->token);
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
	call_add_number(&call, request->settle_ms);
	call_add_number(&call, (int64_t)quorum->count);
	call_add(&call, quorum->waiter);
	call_add_number(&call, least(request->ttl_ms, TENTATIVE_MS));
	return peer_send(&quorum->peers[which], (struct peer_due){PEER_ACQUIRE, quorum->keyed},
		&call, in_full);
}

static bool send_confirm(struct quorum *quorum, size_t which, bool in_full)
{
	struct call call;

	call_begin(&call, &script_confirm, &quorum->keys, quorum->token);
	call_add_number(&call, (int64_t)quorum->fence);
	call_add_number(&call, quorum_ttl_ms(quorum));
	call_add_number(&call, quorum->ticket);
	call_add(&call, quorum->text);
	call_add(&call, quorum->waiter);
	return peer_send(&quorum->peers[which], (struct peer_due){PEER_CONFIRM, quorum->keyed},
		&call, in_full);
}

/* Asks whoever was not asked yet and can be. */
static void send_out(struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];

		if (vote->kind != VOTE_NONE || !send_acquire(quorum, i, false))
			continue;
		vote->kind = VOTE_ASKED;
		vote->touched = true;
	}
}

static bool repeat_acquire(struct quorum *quorum, size_t which, enum peer_kind kind)
{
	return kind == PEER_ACQUIRE && send_acquire(quorum, which, true);
}

static bool repeat_confirm(struct quorum *quorum, size_t which, enum peer_kind kind)
{
	return kind == PEER_CONFIRM ? send_confirm(quorum, which, true)
				    : repeat_acquire(quorum, which, kind);
}

static bool begin_attempt(struct quorum *quorum, struct failure *failure)
{
	quorum_stop_listening(quorum);
	/* One that another process was killed in, perhaps: its connections are of no use. */
	if (quorum->asked) {
		quorum_reset(&quorum->lock);
		quorum_release(&quorum->lock, NULL,
			(struct patience){clock_now() + SHARE_LEAST, -1}, &quorum->scratch);
	}
	if (quorum->spent)
		atomic_fetch_add(quorum->attempt, 1);
	if (!quorum_sync(quorum, failure))
		return false;
	memset(quorum->votes, 0, quorum->count * sizeof(*quorum->votes));
	quorum->repeat = repeat_acquire;
	quorum->asked = quorum->spent = true;
	quorum->fence = 0;
	quorum->asked_at = clock_now();
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
	static const struct lock_parting plain;
	nanos until = clock_now() + SHARE_LEAST;
	size_t pending = 1;

	quorum->repeat = repeat_nothing;
	quorum->fence = 0;
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
					   (struct patience){until, -1}) != PATIENCE_READY)
			pending = 0;
		quorum_collect(quorum);
	}
	quorum->asked = false;
}

/* --- Asking --------------------------------------------------------------------------------- */

/* Those that may still promise the lock. */
static size_t count_open(const struct quorum *quorum)
{
	size_t count = quorum_count(quorum, VOTE_ASKED);

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].kind == VOTE_NONE && !peer_is_down(&quorum->peers[i]);
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

/* After an attempt that failed, others are let in first; and no server is asked too often. */
static enum lock_result wait_for_next(const struct quorum *quorum, struct patience patience)
{
	struct patience limit = patience;

	if (quorum->tried_at == 0)
		return LOCK_GRANTED;
	if (quorum->tried_at + NANOS_PER_SEC < limit.until)
		limit.until = quorum->tried_at + NANOS_PER_SEC;
	if (patience_wait(limit, -1, 0) == PATIENCE_CANCELLED)
		return LOCK_CANCELLED;
	return clock_now() < patience.until ? LOCK_GRANTED : LOCK_TIMEOUT;
}

static enum lock_result quorum_ask(
	struct lock *lock, struct patience patience, struct failure *failure)
{
	struct quorum *quorum = (struct quorum *)lock;
	enum lock_result result = wait_for_next(quorum, patience);

	if (result == LOCK_GRANTED && !begin_attempt(quorum, failure))
		return LOCK_FAILED;
	while (result == LOCK_GRANTED) {
		send_out(quorum);
		quorum_collect(quorum);
		if (count_sent(quorum) >= quorum->majority) {
			quorum->child = true; /* as far as this process can know */
			return LOCK_GRANTED;
		}
		if (count_sent(quorum) + count_open(quorum) < quorum->majority)
			result = LOCK_FAILED;
		else if (clock_now() >= patience.until)
			result = LOCK_TIMEOUT;
		else if (peers_wait(quorum->peers, quorum->count, patience) == PATIENCE_CANCELLED)
			result = LOCK_CANCELLED;
	}
	quorum_explain(quorum, failure);
	if (quorum->asked)
		quorum_step_back(quorum);
	quorum->tried_at = clock_now();
	return result;
}

/* --- The answer ----------------------------------------------------------------------------- */

/* What is wrong with the list of servers, or with the wait: no other attempt will mend that. */
static const struct failure *find_refusal(const struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++) {
		const struct vote *vote = &quorum->votes[i];

		if (vote->kind != VOTE_NO)
			continue;
		switch (vote->failure.code) {
		case EXIT_USAGE:
		case EXIT_CONFIG:
		case EXIT_DEADLOCK:
			return &vote->failure;
		default:
			break;
		}
	}
	return NULL;
}

static bool is_decided(const struct quorum *quorum)
{
	size_t open = count_open(quorum), needed = quorum->majority;
	size_t granted = quorum_count(quorum, VOTE_GRANTED);

	size_t within = quorum_count(quorum, VOTE_WITHIN);
	size_t answered = granted + within + quorum_count(quorum, VOTE_BUSY);

	if (granted >= needed || within >= needed || find_refusal(quorum) ||
		quorum_count(quorum, VOTE_ALREADY) > 0)
		return true;
	/* That a majority can be reached at all is to be known as well. */
	return granted + open < needed && within + open < needed &&
	       (answered >= needed || open == 0);
}

/* The slow and the dead get as much time as there is where nobody competes; else what an attempt
 * holds of the lock while it waits for them is in the way of others. */
static struct patience attempt_limit(
	const struct quorum *quorum, int tries, struct patience patience)
{
	nanos ttl = quorum->request.ttl_ms * NANOS_PER_MS;
	nanos span = least(ATTEMPT_MOST, ttl / 2);
	nanos share = SHARE_LEAST;

	for (size_t i = 0; i < quorum->count; i++) {
		nanos took = quorum->votes[i].replied_at - quorum->asked_at;

		if (SHARE_TIMES * took > share)
			share = SHARE_TIMES * took;
	}
	if (quorum_count(quorum, VOTE_BUSY) > 0)
		span = least(span, share << tries);
	patience.until = least(patience.until, quorum->asked_at + span);
	return patience;
}

static void collect_votes(struct quorum *quorum, int tries, struct patience patience)
{
	for (;;) {
		send_out(quorum);
		quorum_collect(quorum);
		if (is_decided(quorum))
			return;
		if (peers_wait(quorum->peers, quorum->count,
			    attempt_limit(quorum, tries, patience)) != PATIENCE_READY)
			break;
	}
	quorum_collect(quorum);
}

/* Those that may still confirm. */
static size_t count_unconfirmed(const struct quorum *quorum)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += (quorum->votes[i].kind == VOTE_GRANTED ||
				 quorum->votes[i].kind == VOTE_ASKED) &&
			 quorum->peers[i].due_count > 0;
	return count;
}

/* Also to those that have not answered yet, behind the request: what is granted late is not to vote
 * with an old counter; and to those where we wait, to leave the queue. */
static bool confirm(struct quorum *quorum, int tries, struct patience patience)
{
	quorum->repeat = repeat_confirm;
	for (size_t i = 0; i < quorum->count; i++) {
		const struct vote *vote = &quorum->votes[i];

		if (vote->kind == VOTE_GRANTED && vote->fence > quorum->fence)
			quorum->fence = vote->fence;
	}
	for (size_t i = 0; i < quorum->count; i++)
		if (quorum->votes[i].touched || quorum->request.queues)
			send_confirm(quorum, i, false);
	for (;;) {
		size_t confirmed = quorum_count(quorum, VOTE_CONFIRMED);

		if (confirmed >= quorum->majority)
			return true;
		if (confirmed + count_unconfirmed(quorum) < quorum->majority)
			return false;
		if (peers_wait(quorum->peers, quorum->count,
			    attempt_limit(quorum, tries, patience)) != PATIENCE_READY)
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

static void tell_grant(struct quorum *quorum, struct lock_answer *answer)
{
	const struct vote *vote = find_vote(quorum, VOTE_CONFIRMED);

	answer->result = LOCK_GRANTED;
	answer->asked_at = quorum_proved_at(quorum);
	answer->fence = answer->generation = quorum->fence;
	answer->since_us = vote->since_us;
	quorum->granted_at = clock_now();
	quorum->enrolled = false;
	quorum_watch(quorum);
}

/* All but a grant; LOCK_LOST: another attempt may do better. */
static void tell_refusal(struct quorum *quorum, struct lock_answer *answer)
{
	const struct failure *refusal = find_refusal(quorum);
	const struct vote *within = find_vote(quorum, VOTE_WITHIN);
	const struct vote *already = find_vote(quorum, VOTE_ALREADY);

	if (refusal) {
		answer->result = LOCK_FAILED;
		answer->failure = *refusal;
	} else if (already) {
		answer->result = LOCK_ALREADY;
		answer->done_ms = already->done_ms;
	} else if (quorum_count(quorum, VOTE_WITHIN) >= quorum->majority) {
		answer->result = LOCK_WITHIN;
		answer->asked_at = quorum->asked_at;
		answer->fence = within->fence;
		strlcpy(answer->holder_token, within->holder, sizeof(answer->holder_token));
	} else {
		quorum_verdict(quorum, answer);
	}
}

/* Whether a request by another name of a server that is listed twice has come to light by now. */
static bool is_flawless(struct quorum *quorum)
{
	peers_wait(quorum->peers, quorum->count, (struct patience){0, -1});
	quorum_collect(quorum);
	return !find_refusal(quorum);
}

static void attempt(
	struct quorum *quorum, int tries, struct patience patience, struct lock_answer *answer)
{
	single_clear(answer);
	collect_votes(quorum, tries, patience);
	if (quorum_count(quorum, VOTE_GRANTED) < quorum->majority ||
		quorum_count(quorum, VOTE_ALREADY) > 0)
		tell_refusal(quorum, answer);
	else if (!confirm(quorum, tries, patience))
		answer->result = LOCK_LOST;
	else if (!is_flawless(quorum))
		tell_refusal(quorum, answer);
	else
		tell_grant(quorum, answer);
}

/* Before the next attempt, at random, so that those who split the votes do not do so again. False:
 * patience ended in it. */
static bool pause_between(const struct quorum *quorum, int tries, struct patience patience)
{
	nanos most = (clock_now() - quorum->asked_at + PAUSE_LEAST) << tries;

	if (most > PAUSE_MOST)
		most = PAUSE_MOST;
	patience_wait(patience_within(patience, arc4random_uniform((uint32_t)most)), -1, 0);
	return clock_now() < patience.until;
}

static void quorum_answer(struct lock *lock, struct patience patience, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;

	quorum->child = false;
	for (int tries = 0;; tries++) {
		attempt(quorum, tries, patience, answer);
		if (answer->result == LOCK_GRANTED)
			return;
		quorum_step_back(quorum);
		quorum->enrolled = quorum->request.queues;
		if (answer->result != LOCK_LOST)
			return;
		if (tries == TRIES_MOST || !pause_between(quorum, tries, patience))
			break;
		quorum->ticket = quorum->ticket ? quorum->ticket : wall_us();
		if (!begin_attempt(quorum, &answer->failure)) {
			answer->result = LOCK_FAILED;
			return;
		}
	}
	quorum_busy(quorum, answer);
}

static void drop_all(struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++)
		peer_drop(&quorum->peers[i]);
}

static void quorum_learn(struct lock *lock, const struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;
	struct failure unheard;

	quorum_sync(quorum, &unheard);
	quorum->tried_at = answer->result == LOCK_BUSY ? 0 : clock_now();
	switch (answer->result) {
	case LOCK_GRANTED: /* the child has done that, and has the connections */
		quorum->fence = answer->fence;
		quorum->granted_at = clock_now();
		return;
	case LOCK_BUSY:
		quorum->enrolled = quorum->request.queues;
		quorum->look_at = answer->look_at;
		quorum->listen_until = 0;
		quorum->foreign = answer->foreign;
		break;
	default:
		break;
	}
	/* The child has taken back what it had. */
	quorum->asked = quorum->child = false;
	quorum->ticket = quorum->ticket ? quorum->ticket : wall_us();
	drop_all(quorum);
}

/* --- The rest ------------------------------------------------------------------------------- */

static void quorum_close(struct lock *lock)
{
	struct quorum *quorum = (struct quorum *)lock;

	for (size_t i = 0; quorum->peers && i < quorum->count; i++)
		peer_close(&quorum->peers[i]);
	if (quorum->watch >= 0)
		close(quorum->watch);
	if (quorum->mend >= 0)
		close(quorum->mend);
	if (quorum->attempt)
		munmap(quorum->attempt, sizeof(*quorum->attempt));
	keys_free(&quorum->keys);
	keys_free(&quorum->waiter_keys);
	free(quorum->peers);
	free(quorum->votes);
	free(quorum);
}

bool quorum_refuse_many(const struct server *server, struct failure *failure)
{
	return failure_set(failure, EXIT_USAGE, "more than %d servers in the server URL '%s'",
		PEERS_MOST, server->text);
}

/* A majority of servers is none of shares, and there is no order of waiting. */
static bool is_possible(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	if (request->mode != LOCK_EXCLUSIVE)
		return failure_set(failure, EXIT_USAGE,
			"%s needs one server: on a quorum a lock is exclusive",
			request->mode == LOCK_SHARED ? "--shared" : "--permits");
	if (request->priority != 0)
		return failure_set(failure, EXIT_USAGE,
			"--priority needs one server: a quorum has no order of waiting");
	return server->endpoint_count <= PEERS_MOST || quorum_refuse_many(server, failure);
}

static bool prepare(struct quorum *quorum, const struct server *server, struct failure *failure)
{
	const struct lock_request *request = &quorum->request;

	quorum->count = server->endpoint_count;
	quorum->majority = quorum->count / 2 + 1;
	quorum->peers = calloc(quorum->count, sizeof(*quorum->peers));
	quorum->votes = calloc(quorum->count, sizeof(*quorum->votes));
	quorum->attempt = mmap(NULL, sizeof(*quorum->attempt), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (quorum->attempt == MAP_FAILED)
		quorum->attempt = NULL;
	if (!quorum->peers || !quorum->votes || !quorum->attempt)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	for (size_t i = 0; i < quorum->count; i++)
		peer_open(&quorum->peers[i], server, i);
	/* Not libbsd's arc4random: it costs two mappings and a handler of fork(2). */
	while (getrandom(quorum->random, sizeof(quorum->random), 0) < 0 && errno == EINTR)
		continue;
	write_token(quorum, 0, quorum->waiter);
	atomic_store(quorum->attempt, 1);
	if (!keys_make(&quorum->waiter_keys, request->prefix, request->name, quorum->waiter))
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	return quorum_sync(quorum, failure);
}

static struct lock *quorum_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct quorum *quorum;

	if (!is_possible(server, request, failure))
		return NULL;
	quorum = calloc(1, sizeof(*quorum));
	if (!quorum) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	quorum->lock.backend = &quorum_backend;
	quorum->request = *request;
	quorum->server = server->text;
	quorum->watch = quorum->mend = -1;
	quorum->asked = request->token != NULL; /* whoever has a token has been here before */
	record_mode(request, quorum->mode);
	record_text(request, quorum->text);
	keys_once(request->once, quorum->once);
	if (prepare(quorum, server, failure))
		return &quorum->lock;
	quorum_close(&quorum->lock);
	return NULL;
}

static enum lock_result quorum_verify(
	struct lock *lock, struct lock_answer *answer, struct patience patience)
{
	(void)lock;
	(void)patience;
	answer->handed_count = 0; /* nobody is ever handed the lock: he is woken, and tries */
	return LOCK_RELEASED;
}

static int quorum_watch_fd(const struct lock *lock)
{
	return ((const struct quorum *)lock)->watch;
}

static const char *quorum_token(const struct lock *lock)
{
	return ((const struct quorum *)lock)->token;
}

const struct backend quorum_backend = {
	.open = quorum_open,
	.close = quorum_close,
	.ask = quorum_ask,
	.answer = quorum_answer,
	.learn = quorum_learn,
	.listen = quorum_listen,
	.renew = quorum_renew,
	.release = quorum_release,
	.hear = quorum_release,
	.force = quorum_force,
	.verify = quorum_verify,
	.reset = quorum_reset,
	.watch_fd = quorum_watch_fd,
	.token = quorum_token,
	.survey = quorum_survey,
};
