/* An attempt at a lock on a quorum: promises, confirmations, taking it back, and the next one. */
#include "redis/quorum/quorum.h"

#include <bsd/string.h>
#include <string.h>

#include "base/number.h"
#include "base/wakeup.h"
#include "lock/token.h"
#include "redis/redis_service.h"

/* A detached lock is taken once and for long: slower servers get as much time as in a third try. */
#define DETACHED_TRIES 2
#define ATTEMPT_MOST   (5 * NANOS_PER_SEC)
#define PAUSE_LEAST    (5 * NANOS_PER_MS)
#define PAUSE_MOST     NANOS_PER_SEC
#define TRIES_MOST     10 /* in a row, while the lock has no holder */

static nanos longest_attempt(const struct quorum *quorum)
{
	return number_least(ATTEMPT_MOST, quorum->request.ttl_ms * NANOS_PER_MS / 2);
}

/* Another attempt, with no votes yet: all servers are asked. */
static void begin(struct quorum *quorum, struct deadline deadline)
{
	struct errand *errand = &quorum->errand;

	if (quorum->asked)
		quorum_give_back(quorum);
	token_begin(&quorum->request, quorum->lock.token);
	quorum->asked = quorum->lock.asked = true;
	quorum->enrolled |= quorum->request.queues;
	quorum->asked_at = clock_now();
	errand->attempt++;
	strlcpy(errand->token, quorum->lock.token, sizeof(errand->token));
	errand->until = number_least(deadline.until, quorum->asked_at + longest_attempt(quorum));
	for (size_t i = 0; i < quorum->count; i++) {
		struct voter *voter = &quorum->voters[i];

		voter->vote = VOTE_NONE;
		voter->had = voter->again = voter->touched = false;
		voter->proved_at = voter->replied_at = 0;
	}
	quorum_order(quorum, TASK_TAKE, NULL);
}

static bool may_promise(const struct voter *voter)
{
	return voter->vote == VOTE_NONE && voter_is_pending(voter);
}

/* The caller is to know as well whether a majority can be reached at all. */
static bool is_decided(const struct quorum *quorum)
{
	size_t open = quorum_count_if(quorum, may_promise);
	size_t granted = quorum_count(quorum, VOTE_GRANTED);
	size_t answered = granted + quorum_count(quorum, VOTE_BUSY);

	return granted >= quorum->majority || quorum_find_refusal(quorum) ||
	       quorum_count(quorum, VOTE_ALREADY) > 0 ||
	       (granted + open < quorum->majority && (answered >= quorum->majority || open == 0));
}

/* Until when the slower ones are waited for once the faster ones have answered. */
static struct deadline share_limit(const struct quorum *quorum, int tries, struct deadline deadline)
{
	nanos share = QUORUM_SHARE;

	for (size_t i = 0; i < quorum->count; i++) {
		nanos took = quorum->voters[i].replied_at - quorum->asked_at;

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

/* The slow get as much time as there is if the attempt is in no one's way. If no majority is left,
 * they only count for the message. */
static struct deadline attempt_limit(const struct quorum *quorum, struct deadline deadline)
{
	if (is_in_the_way(quorum))
		return share_limit(quorum, quorum->tries, deadline);
	if (quorum_is_blocked(quorum, quorum_count(quorum, VOTE_NO)))
		return deadline_within(deadline, NANOS_PER_SEC);
	deadline.until = number_least(deadline.until, quorum->asked_at + longest_attempt(quorum));
	return deadline;
}

/* Also those where we wait, to leave the queue. */
static bool is_to_confirm(const struct voter *voter)
{
	return voter->vote == VOTE_GRANTED || voter->vote == VOTE_BUSY;
}

static bool may_confirm(const struct voter *voter)
{
	return (voter->vote == VOTE_GRANTED || voter->vote == VOTE_NONE) && voter_is_pending(voter);
}

static bool is_confirmed(const struct quorum *quorum)
{
	return quorum_count(quorum, VOTE_CONFIRMED) >= quorum->majority;
}

static bool is_confirmed_or_not(const struct quorum *quorum)
{
	return is_confirmed(quorum) ||
	       quorum_count(quorum, VOTE_CONFIRMED) + quorum_count_if(quorum, may_confirm) <
		       quorum->majority;
}

/* A server that answers later is told by its voter (follow_up). */
static bool confirm(struct quorum *quorum, struct deadline deadline)
{
	uint64_t *fence = &quorum->errand.fence;

	for (size_t i = 0; i < quorum->count; i++) {
		const struct voter *voter = &quorum->voters[i];

		if (voter->vote == VOTE_GRANTED && voter->answer.fence > *fence)
			*fence = voter->answer.fence;
	}
	quorum_order(quorum, TASK_CONFIRM, is_to_confirm);
	quorum_await(quorum, is_confirmed_or_not, attempt_limit, deadline);
	return is_confirmed(quorum);
}

/* No renewal will bring a detached lock to the servers that were too slow. */
static void wait_for_the_rest(struct quorum *quorum, struct deadline deadline)
{
	quorum_await_while(quorum, voter_is_pending, share_limit(quorum, DETACHED_TRIES, deadline));
	quorum_order(quorum, TASK_CONFIRM, voter_is_pending);
	quorum_await_while(quorum, voter_is_owed, deadline_alone(clock_now() + QUORUM_SHARE));
}

/* A voter whose server could not be reached sees to it from now on. */
static void hold(struct quorum *quorum)
{
	quorum->held = !quorum->request.detached;
	for (size_t i = 0; i < quorum->count; i++)
		if (!voter_is_pending(&quorum->voters[i]) && quorum->voters[i].vote == VOTE_NO)
			wakeup_send(quorum->voters[i].wakeup_fd);
}

static void report_grant(
	struct quorum *quorum, struct deadline deadline, struct lock_answer *answer)
{
	answer->result = LOCK_GRANTED;
	answer->asked_at = quorum_proved_at(quorum);
	answer->fence = quorum->errand.fence;
	for (size_t i = 0; i < quorum->count; i++)
		answer->unsettled |= quorum->voters[i].answer.unsettled;
	answer->granted_at = quorum->errand.granted_at = clock_now();
	if (quorum->request.detached)
		wait_for_the_rest(quorum, deadline);
	hold(quorum);
}

/* Another attempt may do better than LOCK_LOST. */
static void attempt(struct quorum *quorum, struct deadline deadline, struct lock_answer *answer)
{
	enum deadline_end end = quorum_await(quorum, is_decided, attempt_limit, deadline);
	const struct failure *refusal = quorum_find_refusal(quorum);

	answer->result = LOCK_LOST;
	for (size_t i = 0; i < quorum->count; i++)
		if (quorum->voters[i].vote == VOTE_ALREADY)
			*answer = quorum->voters[i].answer;
	if (refusal) {
		answer->result = LOCK_FAILED;
		answer->failure = *refusal;
	} else if (answer->result == LOCK_LOST &&
		   quorum_count(quorum, VOTE_GRANTED) < quorum->majority) {
		quorum_verdict(quorum, answer);
	} else if (answer->result == LOCK_LOST && confirm(quorum, deadline)) {
		report_grant(quorum, deadline, answer);
	}
	if (end == DEADLINE_CANCELLED &&
		(answer->result == LOCK_FAILED || answer->result == LOCK_LOST))
		answer->result = LOCK_CANCELLED;
}

/* Before the next attempt, at random, so that the clients that split the votes do not do so again.
 * False: patience ended in it. */
static bool pause_between(const struct quorum *quorum, struct deadline deadline)
{
	nanos most = (clock_now() - quorum->asked_at + PAUSE_LEAST) << quorum->tries;

	deadline_pause(deadline, clock_jitter(number_least(most, PAUSE_MOST)));
	return clock_now() < deadline.until;
}

/* Attempts until one is granted, or there is no sense in another. */
static void attempt_all(struct quorum *quorum, struct deadline deadline, struct lock_answer *answer)
{
	for (quorum->tries = 0; quorum->tries <= TRIES_MOST; quorum->tries++) {
		begin(quorum, deadline);
		attempt(quorum, deadline, answer);
		/* Promises that a server has given beside that expire by themselves. */
		if (answer->result == LOCK_GRANTED)
			return;
		/* The more queues it stands in, the more servers may be lost in the wait. */
		if (answer->result == LOCK_BUSY && quorum->request.queues)
			quorum_await_while(
				quorum, may_promise, share_limit(quorum, DETACHED_TRIES, deadline));
		quorum_give_back(quorum);
		if (quorum->errand.ticket == 0)
			quorum->errand.ticket = clock_wall_us();
		if (answer->result != LOCK_LOST)
			return;
		if (!pause_between(quorum, deadline))
			break;
	}
	quorum_busy(quorum, answer);
}

/* All that the attempt had was taken back. If no majority can be reached, that is not tried again.
 */
static void learn_denial(struct quorum *quorum, const struct lock_answer *answer)
{
	quorum->tried_at = clock_now();
	if (answer->result == LOCK_FAILED)
		quorum->lock.asked = !quorum_is_blocked(quorum, quorum_count(quorum, VOTE_NO));
	if (answer->result == LOCK_CANCELLED || answer->result == LOCK_BUSY)
		quorum->tried_at = 0;
	if (answer->result != LOCK_BUSY)
		return;
	quorum->look_at = answer->look_at;
	quorum->listen_until = 0;
	quorum->foreign = answer->foreign != NULL;
}

void quorum_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;

	/* After an attempt that failed, others are let in first; and no server is asked too often.
	 */
	answer->result = quorum->tried_at == 0
				 ? LOCK_GRANTED
				 : wait_for_moment(quorum->tried_at + NANOS_PER_SEC, deadline);
	if (answer->result != LOCK_GRANTED)
		return;
	pthread_mutex_lock(&quorum->mutex);
	attempt_all(quorum, deadline, answer);
	if (answer->result != LOCK_GRANTED)
		learn_denial(quorum, answer);
	pthread_mutex_unlock(&quorum->mutex);
}

void quorum_take_over(struct lock *lock, const struct lock_answer *granted)
{
	struct quorum *quorum = (struct quorum *)lock;

	quorum->asked = quorum->enrolled = quorum->errand.orphaned = true;
	strlcpy(quorum->errand.token, lock->token, sizeof(quorum->errand.token));
	if (granted) {
		quorum->errand.fence = granted->fence;
		quorum->errand.granted_at = granted->granted_at;
	}
	for (size_t i = 0; i < quorum->count; i++) {
		struct lock *single = &quorum->voters[i].single->lock;

		strlcpy(single->token, lock->token, LOCK_TOKEN_SIZE);
		redis_service.take_over(single, granted);
	}
}
