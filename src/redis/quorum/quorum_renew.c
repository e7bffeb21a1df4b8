/* Extending a lock on a quorum. Between two renewals each voter sees to its own server (voter.c).
 */
#include "redis/quorum/quorum.h"

#include "base/wakeup.h"

void quorum_report_loss(struct quorum *quorum, struct lock_answer *answer)
{
	answer->result = LOCK_LOST;
	quorum->errand.lost = true;
	if (lock_is_by_token(&quorum->request))
		failure_set(&answer->failure, EXIT_BUSY,
			"not held with this token on a majority of the servers: it is wrong, has "
			"expired, was released, or is that of a holder that still runs");
}

static bool is_fresh(const struct voter *voter)
{
	return voter->proved_at >= voter->quorum->began;
}

static bool is_renewed(const struct quorum *quorum)
{
	return quorum_count_if(quorum, is_fresh) >= quorum->majority;
}

static bool is_lost(const struct quorum *quorum)
{
	return quorum_is_blocked(quorum, quorum_count_word(quorum, LOCK_LOST));
}

static bool is_renewed_or_not(const struct quorum *quorum)
{
	return is_renewed(quorum) || is_lost(quorum) ||
	       quorum_count_if(quorum, is_fresh) + quorum_count_if(quorum, voter_is_pending) <
		       quorum->majority;
}

static void report_renewal(struct quorum *quorum, struct lock_answer *answer)
{
	answer->result = LOCK_GRANTED;
	answer->asked_at = quorum_proved_at(quorum);
	answer->fence = quorum->errand.fence;
	for (size_t i = 0; i < quorum->count; i++) {
		if (quorum->voters[i].again)
			answer->result = LOCK_SET_AGAIN;
		quorum->voters[i].again = false;
	}
}

/* A renewal that is under way counts from when it was sent; once it is answered there is another.
 */
static bool is_to_renew(const struct voter *voter)
{
	return !voter->twin && !(voter_is_pending(voter) && voter->task == TASK_RENEW);
}

static void renew(struct quorum *quorum, struct deadline deadline, struct lock_answer *answer)
{
	enum deadline_end end;

	quorum_order(quorum, TASK_RENEW, is_to_renew);
	end = quorum_await(quorum, is_renewed_or_not, NULL, deadline);
	if (is_renewed(quorum))
		report_renewal(quorum, answer);
	else if (is_lost(quorum))
		quorum_report_loss(quorum, answer);
	else if (!quorum_report_end(end, answer) && !quorum_explain(quorum, &answer->failure))
		failure_set(&answer->failure, EXIT_UNREACHABLE,
			"only %zu of the quorum's %zu servers renew it",
			quorum_count_if(quorum, is_fresh), quorum->count);
}

void quorum_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;

	pthread_mutex_lock(&quorum->mutex);
	if (quorum->watch_fd >= 0)
		wakeup_clear(quorum->watch_fd);
	quorum->errand.self = *quorum->request.self;
	renew(quorum, deadline, answer);
	/* No process stays to bring it to the servers that are too slow. */
	if (lock_is_by_token(&quorum->request) && answer->result == LOCK_GRANTED)
		quorum_await_while(quorum, voter_is_pending, quorum_share(quorum, QUORUM_SHARE));
	pthread_mutex_unlock(&quorum->mutex);
}
