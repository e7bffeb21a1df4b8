/* Having a lock on a quorum: extending it, and watching over its connections. */
#include "redis/quorum/quorum.h"

#include <sys/epoll.h>
#include <unistd.h>

#define MEND_FIRST NANOS_PER_SEC /* until a missing server is tried again; then twice that */

void quorum_report_loss(struct quorum *quorum, struct lock_answer *answer)
{
	answer->result = LOCK_LOST;
	quorum->lost = true;
	if (single_by_token(&quorum->request))
		failure_set(&answer->failure, EXIT_BUSY,
			"not held with this token on a majority of the servers: it is wrong, has "
			"expired, was released, or is that of a holder that still runs");
}

void quorum_catch_up(struct quorum *quorum)
{
	peers_wait(quorum->peers, quorum->count, &(struct deadline){.cancel_fd = -1});
	quorum_collect(quorum);
}

void quorum_dial(struct quorum *quorum, size_t which)
{
	struct vote *vote = &quorum->votes[which];

	if (!peer_is_down(&quorum->peers[which]) ||
		clock_now() < vote->dialed_at + QUORUM_DIAL_PAUSE)
		return;
	vote->dialed_at = clock_now();
	vote->sent_at = 0; /* what was under way has gone with the connection */
	peer_connect(&quorum->peers[which]);
}

static nanos mend_after(struct quorum *quorum)
{
	nanos most = quorum->request.ttl_ms * NANOS_PER_MS / 3;
	nanos after = quorum->mend_after ? quorum->mend_after : MEND_FIRST;

	quorum->mend_after = 2 * after;
	return after < most ? after : most;
}

/* The descriptor becomes readable when a connection drops, when a server that is missing is to be
 * tried again, and when shaking hands can go on: all make the keeper renew. Replies that come late
 * do not. */
void quorum_watch(struct quorum *quorum)
{
	struct epoll_event dropped = {.events = EPOLLRDHUP};
	struct epoll_event due = {.events = EPOLLIN};
	bool missing = false, shaking = false;

	if (quorum->watch < 0) {
		quorum->watch = epoll_create1(EPOLL_CLOEXEC);
		quorum->mend = clock_timer_open();
		if (quorum->watch < 0 || quorum->mend < 0)
			return;
		epoll_ctl(quorum->watch, EPOLL_CTL_ADD, quorum->mend, &due);
	}
	for (size_t i = 0; i < quorum->count; i++) {
		struct peer *peer = &quorum->peers[i];

		if (peer_shakes_hands(peer)) {
			shaking = true;
			epoll_ctl(quorum->watch, EPOLL_CTL_ADD, peer_fd(peer), &due);
		} else if (peer_is_untouched(peer)) {
			/* A server that cannot be connected to would be news all the time. */
			missing = true;
		} else {
			epoll_ctl(quorum->watch, EPOLL_CTL_ADD, peer_fd(peer), &dropped);
		}
	}
	if (!missing && !shaking)
		quorum->mend_after = 0;
	clock_timer_set(quorum->mend, missing ? clock_now() + mend_after(quorum) : NANOS_NEVER);
}

/* Before connections are closed: other processes may have them open, and then they stay watched. */
void quorum_unwatch(struct quorum *quorum)
{
	if (quorum->watch < 0)
		return;
	close(quorum->watch);
	close(quorum->mend);
	quorum->watch = quorum->mend = -1;
}

/* A renewal that is still under way counts from when it was sent; once it is answered there is
 * another. A server that is silent for long is left behind: its connection may be dead. A server
 * that is connected to anew may have lost its scripts, and its answer be read at the next renewal
 * only. */
static void send_renewals(struct quorum *quorum, nanos began)
{
	int64_t ttl_ms = quorum->request.ttl_ms;
	nanos limit = ttl_ms > 0 ? ttl_ms * NANOS_PER_MS / 2 : NANOS_NEVER;

	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];
		struct peer *peer = &quorum->peers[i];

		if (peer->due_count > 0 && clock_now() - peer->due_since > limit)
			peer_drop(peer);
		quorum_dial(quorum, i);
		if (!vote->renewing && vote->sent_at < began)
			quorum_send(quorum, i, PEER_RENEW, peer_is_untouched(peer));
	}
}

static size_t count_fresh(const struct quorum *quorum, nanos began)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].proved_at >= began;
	return count;
}

static void report_renewal(struct quorum *quorum, struct lock_answer *answer)
{
	answer->result = quorum_count_word(quorum, WORD_AGAIN) > 0 ? LOCK_SET_AGAIN : LOCK_GRANTED;
	answer->asked_at = quorum_proved_at(quorum);
	answer->fence = quorum->fence;
	quorum_report_flaw(quorum, answer);
}

/* One round; false: it has not come to an end. */
static bool renew_round(struct quorum *quorum, nanos began, struct lock_answer *answer)
{
	size_t fresh;

	send_renewals(quorum, began);
	quorum_collect(quorum);
	fresh = count_fresh(quorum, began);
	if (fresh >= quorum->majority) {
		report_renewal(quorum, answer);
		return true;
	}
	if (quorum_count_word(quorum, WORD_NO) > quorum->count - quorum->majority) {
		quorum_report_loss(quorum, answer);
		return true;
	}
	if (fresh + quorum_count_pending(quorum) >= quorum->majority)
		return false;
	answer->result = LOCK_FAILED;
	if (quorum_is_refused(quorum))
		quorum_explain(quorum, &answer->failure);
	else
		failure_set(&answer->failure, EXIT_UNREACHABLE,
			"only %zu of the quorum's %zu servers renew it", fresh, quorum->count);
	return true;
}

/* By a token: no process stays to bring it to the servers that are too slow, perhaps by the TLS
 * handshake. */
static void renew_the_rest(struct quorum *quorum, nanos began)
{
	nanos now = clock_now();
	struct deadline limit = {
		.until = now + QUORUM_SHARE_TIMES * (now - began) + QUORUM_SHARE, .cancel_fd = -1};

	while (quorum_count_pending(quorum) > 0 &&
		peers_wait(quorum->peers, quorum->count, &limit) == DEADLINE_READY) {
		send_renewals(quorum, began);
		quorum_collect(quorum);
	}
}

void quorum_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;
	nanos began = clock_now();
	enum deadline_end end = DEADLINE_READY;

	quorum_unwatch(quorum);
	quorum_catch_up(quorum);
	quorum->repeats = QUORUM_REPEAT(PEER_RENEW);
	for (size_t i = 0; i < quorum->count; i++)
		quorum->votes[i].word = WORD_NONE;
	/* What the last wait has brought counts though time is up. */
	while (!renew_round(quorum, began, answer)) {
		if (end != DEADLINE_READY) {
			answer->result = end == DEADLINE_OVER ? LOCK_TIMEOUT : LOCK_CANCELLED;
			break;
		}
		end = peers_wait(quorum->peers, quorum->count, &deadline);
	}
	if (single_by_token(&quorum->request) && answer->result == LOCK_GRANTED)
		renew_the_rest(quorum, began);
	quorum_watch(quorum);
}
