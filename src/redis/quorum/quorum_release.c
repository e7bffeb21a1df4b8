/* Releasing a lock on a quorum, also by force. */
#include "redis/quorum/quorum.h"

#define RELEASE_SHARE (10 * NANOS_PER_MS)  /* as QUORUM_SHARE: the end of a run waits for it */
#define LEAVE_SHARE   (500 * NANOS_PER_MS) /* to come back to a server, and leave its queue */
#define FORCE_SHARE   (200 * NANOS_PER_MS)
#define WRITE_MOST    NANOS_PER_SEC /* for threads to write, on a machine that starves them */

static bool has_promised(const struct voter *voter)
{
	return voter_is_pending(voter) && voter->vote != VOTE_NONE && voter->vote != VOTE_BUSY;
}

/* Whether the voter may have something left; a request under way counts, as nothing is known of it.
 */
static bool may_have(const struct voter *voter)
{
	return (voter->touched && voter->vote != VOTE_BUSY) || voter_is_pending(voter);
}

/* Written to all before any answer is awaited; and behind a request that is not answered yet, or
 * else the lock would stay if that is granted late. */
void quorum_give_back(struct quorum *quorum)
{
	struct errand *errand = &quorum->errand;
	struct deadline limit = {.until = clock_now() + QUORUM_SHARE, .cancel_fd = -1};

	errand->fence = 0;
	errand->granted_at = 0;
	errand->terms = (struct release_terms){0};
	errand->leaves = false;
	errand->until = limit.until;
	quorum_order(quorum, TASK_RELEASE, may_have);
	quorum_await_while(quorum, has_promised, limit);
	quorum_await_while(quorum, voter_is_owed, limit);
	quorum->asked = false;
}

/* A server that did not answer the last release is told again. */
static bool is_to_release(const struct voter *voter)
{
	const struct quorum *quorum = voter->quorum;

	if (voter->task == TASK_RELEASE && voter_is_pending(voter))
		return false;
	return may_have(voter) || quorum->errand.orphaned || quorum->enrolled ||
	       lock_is_by_token(&quorum->request);
}

/* LOCK_TIMEOUT: it is not known yet. */
static enum lock_result count_releases(const struct quorum *quorum)
{
	size_t released = quorum_count_word(quorum, LOCK_RELEASED);
	size_t gone = quorum_count_word(quorum, LOCK_GONE);
	size_t lost = quorum_count_word(quorum, LOCK_LOST);
	bool pending = quorum_count_if(quorum, voter_is_pending) > 0;

	if (quorum->errand.fence == 0 && !lock_is_by_token(&quorum->request))
		return !pending || released + gone + lost >= quorum->majority ? LOCK_RELEASED
									      : LOCK_TIMEOUT;
	if (released >= quorum->majority)
		return LOCK_RELEASED;
	if (quorum_is_blocked(quorum, lost))
		return LOCK_LOST;
	if (released + gone >= quorum->majority)
		return LOCK_GONE;
	return pending ? LOCK_TIMEOUT : LOCK_FAILED;
}

static bool is_released_or_not(const struct quorum *quorum)
{
	return count_releases(quorum) != LOCK_TIMEOUT;
}

/* The majority has decided. Servers that were prompt so far get a little longer. A slower one is
 * sent it in full, in any case, as no process will be there to read its answer: it may not know the
 * script. A release may be repeated. */
static void say_the_rest(struct quorum *quorum, struct deadline deadline)
{
	struct deadline share =
		quorum_share(quorum, quorum->enrolled ? LEAVE_SHARE : RELEASE_SHARE);

	share.least = 0;
	/* A server to which a waiter has not come back yet would keep its place. */
	if (quorum->enrolled && quorum->errand.fence == 0)
		share = deadline;
	quorum_await_while(quorum, voter_is_owed, share);
	quorum_order(quorum, TASK_LAST_WORD, voter_is_owed);
	quorum_await_while(quorum, voter_is_owed, deadline_alone(clock_now() + WRITE_MOST));
}

/* Nothing of this attempt is left, but on a server that is silent: there the release is on its way.
 */
static void forget(struct quorum *quorum)
{
	quorum->asked = quorum->enrolled = quorum->lock.asked = false;
	quorum->errand.orphaned = quorum->errand.lost = false;
	quorum->errand.fence = 0;
	quorum->errand.granted_at = 0;
	quorum->errand.terms = (struct release_terms){0};
}

static void release(struct quorum *quorum, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct errand *errand = &quorum->errand;
	enum deadline_end end;

	quorum->held = false;
	errand->terms = release_terms ? *release_terms : (struct release_terms){0};
	errand->terms.valid_until = 0; /* of a majority it proves nothing on one server */
	errand->leaves = true;
	errand->until = deadline.until;
	quorum_order(quorum, TASK_RELEASE, is_to_release);
	end = quorum_await(quorum, is_released_or_not, NULL, deadline);
	if (quorum_report_end(end, answer))
		return;
	answer->result = count_releases(quorum);
	if (answer->result == LOCK_FAILED) {
		quorum_explain(quorum, &answer->failure);
		return;
	}
	if (answer->result == LOCK_LOST)
		quorum_report_loss(quorum, answer);
	say_the_rest(quorum, deadline);
	forget(quorum);
}

void quorum_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;

	answer->result = LOCK_RELEASED;
	if (!quorum->asked && !quorum->enrolled)
		return;
	pthread_mutex_lock(&quorum->mutex);
	release(quorum, release_terms, deadline, answer);
	pthread_mutex_unlock(&quorum->mutex);
}

static size_t count_forced(const struct quorum *quorum)
{
	return quorum_count_word(quorum, LOCK_RELEASED) + quorum_count_word(quorum, LOCK_GONE);
}

static bool is_forced(const struct quorum *quorum)
{
	return quorum_count_if(quorum, voter_is_pending) == 0;
}

/* Servers that are slow get what a majority leaves them. */
static struct deadline force_limit(const struct quorum *quorum, struct deadline deadline)
{
	return count_forced(quorum) >= quorum->majority ? deadline_within(deadline, FORCE_SHARE)
							: deadline;
}

/* Sent once to each server: a second one would break the lock of the waiter that got it by the
 * first. Reports the owner that had it on most of the servers that answer; there may be several. */
void quorum_force(struct lock *lock, lock_holder_taker *tell, void *context,
	struct deadline deadline, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;
	/* A holder without its majority is none; a few servers may have an old one still. */
	size_t least = quorum->request.fence > 0 ? quorum->majority : 1;
	struct lock_answer held;
	enum deadline_end end;

	pthread_mutex_lock(&quorum->mutex);
	quorum->errand.until = deadline.until;
	quorum_order(quorum, TASK_FORCE, NULL);
	end = quorum_await(quorum, is_forced, force_limit, deadline);
	answer->result =
		quorum_count_word(quorum, LOCK_RELEASED) >= least ? LOCK_RELEASED : LOCK_GONE;
	if (count_forced(quorum) < quorum->majority) {
		answer->result = end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_FAILED;
		quorum_explain(quorum, &answer->failure);
	}
	quorum_busy(quorum, &held);
	pthread_mutex_unlock(&quorum->mutex);
	if (answer->result == LOCK_RELEASED)
		tell(&held, context);
}
