/*
 * Waiting for a lock on a quorum, in the queue of every server that did not grant it. We block in
 * BLPOP on a list of our own. The holder that releases the lock wakes the first waiter in the queue
 * of each server. A waiter that is woken tries again: nothing was handed to it, so an attempt
 * decides.
 */
#include "redis/quorum/quorum.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/link/connection.h"

#define PAUSE_MS 10 /* at random, once woken: others may be */

static int64_t listen_ms(const struct quorum *quorum, struct deadline deadline)
{
	int64_t most =
		quorum->foreign ? WAIT_FOREIGN_MS : WAIT_LISTEN_MS + clock_jitter(WAIT_LISTEN_MORE);
	nanos until = quorum->look_at < deadline.until ? quorum->look_at : deadline.until;
	int64_t left = until == NANOS_NEVER ? most : (until - clock_now()) / NANOS_PER_MS + 1;

	if (left < WAIT_FOREIGN_MS)
		left = WAIT_FOREIGN_MS;
	return left < most ? left : most;
}

/* The lease says how long we shall listen at least; in the same write, so that a waiter never seems
 * to listen when it does not. Redis 5 takes whole seconds only for BLPOP, and we end it anyway. */
static bool send_listening(struct quorum *quorum, size_t which, int64_t ms)
{
	struct peer *peer = &quorum->peers[which];
	char timeout[32], lease[32];
	const struct keys *keys = &quorum->waiter_keys;

	snprintf(lease, sizeof(lease), "%" PRId64, ms + WAIT_LEASE_MS);
	snprintf(timeout, sizeof(timeout), "%" PRId64, (ms + 999) / 1000);
	return peer_command(peer, (struct peer_due){PEER_LEASE, 0},
		       WORDS("PEXPIRE", keys->who, lease)) &&
	       peer_command(peer, (struct peer_due){PEER_MESSAGE, 0},
		       WORDS("BLPOP", keys->wake, timeout));
}

/* "look N": in so many ms; any other is meant for now. -1: there is none, or one that makes no
 * sense. */
static int64_t read_message(const struct reply *reply)
{
	const char *message = reply_text(reply_at(reply, 1));
	int64_t ms;

	if (!message)
		return -1;
	ms = strncmp(message, "look ", 5) == 0 ? strtoll(message + 5, NULL, 10) : 0;
	return ms >= 0 && ms <= WAIT_LISTEN_MS ? ms : -1;
}

static bool is_sensible(enum peer_kind kind, const struct reply *reply)
{
	if (kind == PEER_LEASE)
		return reply_is_integer(reply);
	return reply_is_nil(reply) || reply_count(reply) == 2;
}

/* Takes in what has come; *until moves to when a message says. */
static void hear(struct quorum *quorum, nanos *until)
{
	for (size_t i = 0; i < quorum->count; i++) {
		struct peer *peer = &quorum->peers[i];
		struct peer_due what;
		struct reply *reply;

		while (peer_take(peer, &what, &reply)) {
			int64_t ms = what.kind == PEER_MESSAGE ? read_message(reply) : -1;
			nanos moment = clock_now() + ms * NANOS_PER_MS;

			if (ms >= 0 && moment < *until)
				*until = moment + clock_jitter(PAUSE_MS * NANOS_PER_MS);
			if (!is_sensible(
				    what.kind, reply)) /* it would answer the next one at once */
				peer_drop(peer);
			reply_free(reply);
		}
	}
}

/* Listens wherever it can; how many servers there are that may have something to say. */
static size_t listen_to_all(struct quorum *quorum, int64_t ms)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++) {
		struct peer *peer = &quorum->peers[i];

		if (peer->due_count == 0)
			send_listening(quorum, i, ms);
		count += !peer_is_down(peer);
	}
	return count;
}

void quorum_stop_listening(struct quorum *quorum)
{
	if (quorum->listening)
		quorum_drop_all(quorum);
	quorum->listening = false;
}

enum lock_result quorum_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct quorum *quorum = (struct quorum *)lock;
	nanos began = clock_now();
	int64_t ms = listen_ms(quorum, deadline);
	nanos *until = &quorum->listen_until;
	enum deadline_end end = DEADLINE_READY;

	(void)failure;
	if (!quorum->request.queues) {
		quorum_drop_all(quorum);
		return wait_to_settle(quorum->settled_at, deadline);
	}
	if (*until == 0)
		*until = began + ms * NANOS_PER_MS;
	quorum->listening = true;
	quorum_connect_all(quorum);
	while (end == DEADLINE_READY && clock_now() < *until) {
		struct deadline limit = deadline;

		/* If too few servers are left to be woken by, it is tried again soon. */
		if (listen_to_all(quorum, ms) < quorum->majority && *until > began + NANOS_PER_SEC)
			*until = began + NANOS_PER_SEC;
		if (*until < limit.until)
			limit.until = *until;
		limit.least = 0;
		end = peers_wait(quorum->peers, quorum->count, &limit);
		hear(quorum, until);
	}
	if (end == DEADLINE_CANCELLED)
		return LOCK_CANCELLED;
	quorum_stop_listening(quorum);
	return clock_now() < deadline.until ? LOCK_GRANTED : LOCK_TIMEOUT;
}
