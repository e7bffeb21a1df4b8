/*
 * Waiting for a lock on a quorum, in the queue of every server that did not grant it. Each voter
 * blocks in BLPOP on a list of our own (voter.c). The holder that releases the lock wakes the first
 * waiter in the queue of each server. A waiter that is woken tries again: nothing was handed to it,
 * so an attempt decides.
 */
#include "redis/quorum/quorum.h"

#include "base/number.h"

static int64_t listen_ms(const struct quorum *quorum, struct deadline deadline)
{
	int64_t most =
		quorum->foreign ? WAIT_FOREIGN_MS : WAIT_LISTEN_MS + clock_jitter(WAIT_LISTEN_MORE);
	nanos until = number_least(quorum->look_at, deadline.until);
	int64_t left = until == NANOS_NEVER ? most : (until - clock_now()) / NANOS_PER_MS + 1;

	return number_within(left, WAIT_FOREIGN_MS, most);
}

static bool is_deaf(const struct voter *voter)
{
	return voter->deaf;
}

static bool is_to_listen(const struct voter *voter)
{
	return !voter_is_pending(voter) || voter->task != TASK_LISTEN;
}

static bool is_woken(const struct quorum *quorum)
{
	return clock_now() >= quorum->listen_until;
}

/* If too few servers are left to be woken by, it is tried again soon. */
static struct deadline listen_limit(const struct quorum *quorum, struct deadline deadline)
{
	deadline.until = number_least(deadline.until, quorum->listen_until);
	deadline.least = 0;
	if (quorum_is_blocked(quorum, quorum_count_if(quorum, is_deaf)))
		deadline.until = number_least(deadline.until, quorum->began + NANOS_PER_SEC);
	return deadline;
}

static enum deadline_end listen_to_all(struct quorum *quorum, struct deadline deadline)
{
	quorum->errand.listen_ms = listen_ms(quorum, deadline);
	if (quorum->listen_until == 0)
		quorum->listen_until = clock_now() + quorum->errand.listen_ms * NANOS_PER_MS;
	quorum->errand.until = quorum->listen_until;
	for (size_t i = 0; i < quorum->count; i++)
		quorum->voters[i].deaf = false;
	quorum_order(quorum, TASK_LISTEN, is_to_listen);
	return quorum_await(quorum, is_woken, listen_limit, deadline);
}

enum lock_result quorum_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct quorum *quorum = (struct quorum *)lock;
	enum deadline_end end;

	(void)failure;
	if (!quorum->request.queues)
		return wait_for_moment(quorum->settled_at, deadline);
	pthread_mutex_lock(&quorum->mutex);
	end = listen_to_all(quorum, deadline);
	pthread_mutex_unlock(&quorum->mutex);
	if (end == DEADLINE_CANCELLED)
		return LOCK_CANCELLED;
	return clock_now() < deadline.until ? LOCK_GRANTED : LOCK_TIMEOUT;
}
