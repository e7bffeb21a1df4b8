/* Releasing a lock on a quorum, also by force. */
#include "redis/quorum/quorum.h"

#include <string.h>

#include "redis/link/connection.h"
#include "redis/script/replies.h"

#define RELEASE_SHARE (10 * NANOS_PER_MS) /* as QUORUM_SHARE: the end of a run waits for it */
#define FORCE_SHARE   (200 * NANOS_PER_MS)

/* Sends the release to each server that it can be sent to now. A request that is not sent yet has
 * had no effect, and must have none: so it is forgotten. Behind a request without an answer the
 * release goes in full, as no process may be left to send it again. */
static void send_releases(struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++) {
		struct peer *peer = &quorum->peers[i];
		struct vote *vote = &quorum->votes[i];
		bool in_full = peer->due_count > 0;

		if (vote->release_sent || (!vote->touched && !quorum->enrolled))
			continue;
		/* A server that refused would do so again and again. */
		if (vote->word == WORD_FAULT && clock_now() < vote->sent_at + QUORUM_DIAL_PAUSE)
			continue;
		if (peer_is_untouched(peer) && peer->due_count > 0)
			peer_forget(peer);
		quorum_dial(quorum, i);
		if (vote->touched && !quorum_send(quorum, i, PEER_RELEASE, in_full))
			continue;
		if (quorum->enrolled)
			quorum_send(quorum, i, PEER_LEAVE, true);
		vote->release_sent = peer->due_count > 0;
		vote->prompt = !in_full;
		vote->sent_at = clock_now();
	}
}

/* A server that was sent it, and went down without an answer, is to get it again; it may be
 * repeated. */
static void look_after(struct quorum *quorum)
{
	quorum_collect(quorum);
	for (size_t i = 0; i < quorum->count; i++)
		if (quorum->votes[i].touched && quorum->peers[i].due_count == 0)
			quorum->votes[i].release_sent = false;
}

static size_t count_left(const struct quorum *quorum)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].touched ||
			 (quorum->enrolled && quorum->peers[i].due_count > 0);
	return count;
}

static bool is_over(struct quorum *quorum, struct lock_answer *answer)
{
	size_t released = quorum_count_word(quorum, WORD_YES);
	size_t gone = quorum_count_word(quorum, WORD_GONE);
	size_t lost = quorum_count_word(quorum, WORD_NO);

	answer->result = LOCK_RELEASED;
	if (quorum->fence == 0 && !single_by_token(&quorum->request))
		return count_left(quorum) == 0 || released + gone + lost >= quorum->majority;
	if (released >= quorum->majority)
		return true;
	if (lost > quorum->count - quorum->majority) {
		quorum_report_loss(quorum, answer);
		return true;
	}
	answer->result = LOCK_GONE;
	return released + gone >= quorum->majority;
}

static bool is_prompt_pending(const struct vote *vote, const struct peer *peer)
{
	return vote->prompt && vote->touched && peer->due_count > 0;
}

/* The majority has decided. Servers that were prompt so far get a little longer: one that does not
 * know the script yet has to be sent it. A slower one is sent it in any case, as no process will be
 * there to read its answer. A release may be repeated. */
static void read_the_rest(struct quorum *quorum, nanos began)
{
	nanos now = clock_now();
	struct deadline limit = {
		.until = now + QUORUM_SHARE_TIMES * (now - began) + RELEASE_SHARE, .cancel_fd = -1};

	quorum_collect_while(quorum, is_prompt_pending, limit);
	for (size_t i = 0; i < quorum->count; i++)
		if (is_prompt_pending(&quorum->votes[i], &quorum->peers[i]))
			quorum_send(quorum, i, PEER_RELEASE, true);
}

static bool is_leave_kept_back(const struct vote *vote, const struct peer *peer)
{
	(void)vote;
	return peer->due_count > 0 && peer_is_untouched(peer);
}

/* A waiter leaves. Without TLS the kernel delivers what it has sent, even after its end. With TLS
 * nothing is sent before the handshake is over: a server that is slow in it would keep the place
 * until its lease ends. */
static void send_the_rest(struct quorum *quorum, struct deadline deadline)
{
	quorum_collect_while(quorum, is_leave_kept_back, deadline);
}

/* Nothing of this attempt is left, but where a server is silent: there it is on its way. */
static void forget(struct quorum *quorum)
{
	quorum->asked = quorum->enrolled = quorum->orphaned = quorum->lost = false;
	quorum->lock.asked = false;
	quorum->spent = true;
	quorum->fence = 0;
	quorum->granted_at = 0;
	quorum_drop_all(quorum);
}

static void prepare(struct quorum *quorum, const struct release_terms *release_terms)
{
	quorum_unwatch(quorum);
	quorum_stop_listening(quorum);
	quorum->release_terms = release_terms ? *release_terms : (struct release_terms){0};
	if (!quorum->orphaned)
		quorum_catch_up(quorum);
	quorum->repeats = QUORUM_REPEAT(PEER_RELEASE);
	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];

		vote->word = WORD_NONE;
		vote->release_sent = false;
		vote->dialed_at = 0;
		/* Another process may have asked any of them. */
		vote->touched |=
			(quorum->orphaned || single_by_token(&quorum->request)) && quorum->asked;
		/* The answer to LEAVE is not read; that to this says that the server is heard. */
		vote->touched |= quorum->enrolled && vote->kind == VOTE_BUSY;
	}
}

/* The servers have decided. */
static void end_release(
	struct quorum *quorum, nanos began, struct deadline deadline, struct lock_answer *answer)
{
	read_the_rest(quorum, began);
	if (quorum->enrolled && quorum->fence == 0)
		send_the_rest(quorum, deadline);
	if (answer->result == LOCK_RELEASED)
		quorum_report_flaw(quorum, answer);
	forget(quorum);
}

void quorum_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;
	enum deadline_end end = DEADLINE_READY;
	nanos began;

	answer->result = LOCK_RELEASED;
	if (!quorum->asked && !quorum->enrolled)
		return;
	if (!quorum_sync(quorum, &answer->failure)) {
		answer->result = LOCK_FAILED;
		return;
	}
	prepare(quorum, release_terms);
	began = clock_now();
	for (;;) {
		struct deadline limit;

		send_releases(quorum);
		look_after(quorum);
		if (is_over(quorum, answer))
			break;
		if (single_by_token(&quorum->request) && quorum_is_refused(quorum)) {
			answer->result = LOCK_FAILED;
			quorum_explain(quorum, &answer->failure);
			return;
		}
		/* Only now: what the last wait has brought counts though time is up. */
		if (end == DEADLINE_CANCELLED || deadline_is_over(&deadline)) {
			answer->result = end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
			return;
		}
		limit = deadline_within(deadline, QUORUM_DIAL_PAUSE);
		limit.least = 0;
		end = peers_wait(quorum->peers, quorum->count, &limit);
	}
	end_release(quorum, began, deadline, answer);
}

/* Reports the owner that had it on most of the servers that answer; there may be several owners. */
static void report_forced(struct quorum *quorum,
	void (*tell)(const struct lock_answer *held, void *context), void *context)
{
	struct lock_answer *held = &quorum->scratch;

	memset(held, 0, sizeof(*held));
	quorum_busy(quorum, held);
	tell(held, context);
}

/* Sent once to each server: a second one would break the lock of the waiter that got it by the
 * first. */
void quorum_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;
	/* A holder without its majority is none; a few servers may have an old one still. */
	size_t least = quorum->request.fence > 0 ? quorum->majority : 1;
	size_t answered = 0;
	enum deadline_end end = DEADLINE_READY;

	quorum->repeats = QUORUM_REPEAT(PEER_FORCE);
	quorum_connect_all(quorum);
	while (answered < quorum->count && end == DEADLINE_READY) {
		struct deadline limit;

		for (size_t i = 0; i < quorum->count; i++)
			if (!quorum->votes[i].release_sent)
				quorum->votes[i].release_sent =
					quorum_send(quorum, i, PEER_FORCE, false);
		if (quorum_count_pending(quorum) == 0)
			break;
		/* Servers that are slow get what a majority leaves them. */
		limit = answered >= quorum->majority ? deadline_within(deadline, FORCE_SHARE)
						     : deadline;
		end = peers_wait(quorum->peers, quorum->count, &limit);
		quorum_collect(quorum);
		answered =
			quorum_count_word(quorum, WORD_YES) + quorum_count_word(quorum, WORD_GONE);
	}
	if (answered < quorum->majority) {
		answer->result = end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_FAILED;
		quorum_explain(quorum, &answer->failure);
		return;
	}
	answer->result = quorum_count_word(quorum, WORD_YES) >= least ? LOCK_RELEASED : LOCK_GONE;
	if (answer->result == LOCK_RELEASED)
		report_forced(quorum, tell, context);
}
