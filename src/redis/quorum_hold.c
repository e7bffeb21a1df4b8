/* Having a lock on a quorum: extending it, and giving it back. */
#include "redis/quorum.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "redis/script.h"
#include "redis/single.h"

#define MEND_FIRST                                                                                 \
	NANOS_PER_SEC /* until a server that is missing is tried again; then twice that */
#define DIAL_PAUSE  (50 * NANOS_PER_MS)
#define SHARE_LEAST (10 * NANOS_PER_MS) /* for those that answer a release after the majority */
#define FORCE_SHARE (200 * NANOS_PER_MS)
#define SHARE_TIMES 4 /* and so often what that took */

/* Whether a token is all that is known: what was acquired detached, by another process. */
static bool by_token(const struct quorum *quorum)
{
	return quorum->request.detached && quorum->request.token;
}

static void tell_loss(struct quorum *quorum, struct lock_answer *answer)
{
	answer->result = LOCK_LOST;
	quorum->lost = true;
	if (by_token(quorum))
		failure_set(&answer->failure, EXIT_BUSY,
			"not held with this token on a majority of the servers: it is wrong, has "
			"expired, was given back, or is that of a holder who still runs");
}

/* Takes in what has come since, without waiting. */
static void catch_up(struct quorum *quorum)
{
	peers_wait(quorum->peers, quorum->count, (struct patience){0, -1});
	quorum_collect(quorum);
}

/* One that was not to be reached is tried again, but not all the time. */
static void dial(struct quorum *quorum, size_t which)
{
	struct vote *vote = &quorum->votes[which];

	if (!peer_is_down(&quorum->peers[which]) || clock_now() < vote->dialed_at + DIAL_PAUSE)
		return;
	vote->dialed_at = clock_now();
	peer_connect(&quorum->peers[which]);
}

/* --- Watching ------------------------------------------------------------------------------- */

static nanos mend_after(struct quorum *quorum, bool missing)
{
	nanos most = quorum->request.ttl_ms * NANOS_PER_MS / 3;
	nanos after = quorum->mend_after ? quorum->mend_after : MEND_FIRST;

	quorum->mend_after = missing ? 2 * after : 0;
	return after < most ? after : most;
}

/* The descriptor becomes readable when a connection drops, and when a server that is missing is to
 * be tried again: both make the keeper renew. Replies that come late do not. */
void quorum_watch(struct quorum *quorum)
{
	struct epoll_event dropped = {.events = EPOLLRDHUP}, due = {.events = EPOLLIN};
	bool missing = false;
	nanos after;

	if (quorum->watch < 0) {
		quorum->watch = epoll_create1(EPOLL_CLOEXEC);
		quorum->mend = clock_timer_open();
		if (quorum->watch < 0 || quorum->mend < 0)
			return;
		epoll_ctl(quorum->watch, EPOLL_CTL_ADD, quorum->mend, &due);
	}
	for (size_t i = 0; i < quorum->count; i++) {
		struct peer *peer = &quorum->peers[i];

		/* One that cannot be connected to would be news all the time. */
		if (peer_is_untouched(peer))
			missing = true;
		else
			epoll_ctl(quorum->watch, EPOLL_CTL_ADD, peer_fd(peer), &dropped);
	}
	after = mend_after(quorum, missing);
	clock_timer_set(quorum->mend, missing ? clock_now() + after : NANOS_NEVER);
}

/* Before connections are closed: other processes may have them open, and then they stay watched. */
static void unwatch(struct quorum *quorum)
{
	if (quorum->watch < 0)
		return;
	close(quorum->watch);
	close(quorum->mend);
	quorum->watch = quorum->mend = -1;
}

/* --- Renew ---------------------------------------------------------------------------------- */

/* who: room for the record that goes with it. */
static void begin_renewal(const struct quorum *quorum, int64_t since_us, struct call *call,
	char who[static RECORD_SIZE])
{
	if (by_token(quorum)) {
		call_begin(call, &script_detached_renew, &quorum->keys, quorum->token);
		call_add_number(call, quorum->request.ttl_ms);
		return;
	}
	record_write(who, quorum->mode, since_us, quorum->text);
	call_begin(call, &script_renew, &quorum->keys, quorum->token);
	call_add(call, quorum->mode);
	call_add_number(call, quorum_ttl_ms(quorum));
	call_add_number(call, (int64_t)quorum->fence);
	call_add_number(call, (int64_t)quorum->fence);
	call_add(call, who);
	call_add_number(call, (int64_t)quorum->count);
}

static bool send_renewal(struct quorum *quorum, size_t which, bool in_full)
{
	struct vote *vote = &quorum->votes[which];
	char who[RECORD_SIZE];
	struct call call;
	nanos now = clock_now();

	begin_renewal(quorum, vote->since_us, &call, who);
	if (!peer_send(&quorum->peers[which], (struct peer_due){PEER_RENEW, quorum->keyed}, &call,
		    in_full))
		return false;
	vote->renewing = vote->touched = true;
	vote->sent_at = now;
	return true;
}

static bool repeat_renewal(struct quorum *quorum, size_t which, enum peer_kind kind)
{
	return kind == PEER_RENEW && send_renewal(quorum, which, true);
}

/* A renewal that is still under way counts from when it was sent; once it is answered there is
 * another. A server that is silent for long is left behind: its connection may be dead. */
static void send_renewals(struct quorum *quorum, nanos began)
{
	int64_t ttl_ms = quorum->request.ttl_ms;
	nanos limit = ttl_ms > 0 ? ttl_ms * NANOS_PER_MS / 2 : NANOS_NEVER;

	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];
		struct peer *peer = &quorum->peers[i];

		if (peer->due_count > 0 && clock_now() - peer->due_since > limit)
			peer_drop(peer);
		dial(quorum, i);
		if (!vote->renewing && vote->sent_at < began)
			send_renewal(quorum, i, false);
	}
}

static size_t count_fresh(const struct quorum *quorum, nanos began)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].proved_at >= began;
	return count;
}

/* Servers of which something may still come in this round. */
static size_t count_pending(const struct quorum *quorum)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += !peer_is_down(&quorum->peers[i]) && quorum->votes[i].word == WORD_NONE;
	return count;
}

static void tell_renewal(struct quorum *quorum, struct lock_answer *answer)
{
	answer->result = quorum_count_word(quorum, WORD_AGAIN) > 0 ? LOCK_SET_AGAIN : LOCK_GRANTED;
	answer->asked_at = quorum_proved_at(quorum);
	answer->fence = answer->generation = quorum->fence;
}

/* One round; false: it has not come to an end. */
static bool renew_round(struct quorum *quorum, nanos began, struct lock_answer *answer)
{
	size_t fresh;

	send_renewals(quorum, began);
	quorum_collect(quorum);
	fresh = count_fresh(quorum, began);
	if (fresh >= quorum->majority) {
		tell_renewal(quorum, answer);
		return true;
	}
	if (quorum_count_word(quorum, WORD_NO) > quorum->count - quorum->majority) {
		tell_loss(quorum, answer);
		return true;
	}
	if (fresh + count_pending(quorum) >= quorum->majority)
		return false;
	answer->result = LOCK_FAILED;
	failure_set(&answer->failure, EXIT_UNREACHABLE,
		"only %zu of the quorum's %zu servers renew it", fresh, quorum->count);
	return true;
}

void quorum_renew(struct lock *lock, struct patience patience, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;
	nanos began = clock_now();

	single_clear(answer);
	unwatch(quorum);
	catch_up(quorum);
	quorum->repeat = repeat_renewal;
	for (size_t i = 0; i < quorum->count; i++)
		quorum->votes[i].word = WORD_NONE;
	while (!renew_round(quorum, began, answer)) {
		enum patience_end end = peers_wait(quorum->peers, quorum->count, patience);

		if (end == PATIENCE_READY)
			continue;
		answer->result = end == PATIENCE_OVER ? LOCK_TIMEOUT : LOCK_CANCELLED;
		break;
	}
	quorum_watch(quorum);
}

/* --- Release -------------------------------------------------------------------------------- */

/* Of the attempt, or of the place in the queues. */
static bool send_parting(struct quorum *quorum, size_t which, bool waiting,
	const struct lock_parting *parting, bool in_full)
{
	const struct lock_request *request = &quorum->request;
	uint64_t fence = waiting ? 0 : quorum->fence;
	struct call call;

	if (!waiting && by_token(quorum)) {
		call_begin(&call, &script_detached_release, &quorum->keys, quorum->token);
		call_add(&call, "");
		return peer_send(&quorum->peers[which],
			(struct peer_due){PEER_RELEASE, quorum->keyed}, &call, in_full);
	}
	call_begin(&call, &script_release, waiting ? &quorum->waiter_keys : &quorum->keys,
		waiting ? quorum->waiter : quorum->token);
	call_add(&call, quorum->mode);
	call_add_number(&call, parting->keep_ms);
	call_add_number(&call, (int64_t)fence);
	call_add_number(&call, (int64_t)fence);
	call_add_number(&call, fence ? quorum->votes[which].since_us : 0);
	call_add_number(&call, quorum->lost ? 1 : 0);
	call_add_number(&call, parting->success ? 1 : 0);
	call_add_number(&call, request->cooldown_ms);
	call_add(&call, quorum->once);
	call_add_number(&call, request->once_for_ms);
	return peer_send(&quorum->peers[which],
		(struct peer_due){PEER_RELEASE, waiting ? 0 : quorum->keyed}, &call, in_full);
}

bool quorum_send_release(
	struct quorum *quorum, size_t which, const struct lock_parting *parting, bool in_full)
{
	return send_parting(quorum, which, false, parting, in_full);
}

static bool repeat_release(struct quorum *quorum, size_t which, enum peer_kind kind)
{
	return kind == PEER_RELEASE && quorum_send_release(quorum, which, &quorum->parting, true);
}

/* To whom it can be sent now. Nothing can have come of a request that is not sent yet, and must
 * not: so that is forgotten. Behind what is not answered the release goes in full, as nobody may be
 * there any more to send it again. */
static void send_releases(struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++) {
		struct peer *peer = &quorum->peers[i];
		struct vote *vote = &quorum->votes[i];
		bool in_full = peer->due_count > 0;

		if (vote->parted || (!vote->touched && !quorum->enrolled))
			continue;
		if (peer_is_untouched(peer) && peer->due_count > 0)
			peer_forget(peer);
		dial(quorum, i);
		if (vote->touched && !quorum_send_release(quorum, i, &quorum->parting, in_full))
			continue;
		if (quorum->enrolled)
			send_parting(quorum, i, true, &(struct lock_parting){0}, true);
		vote->parted = peer->due_count > 0;
		vote->prompt = !in_full;
	}
}

/* Who was sent it and went down without an answer is to get it again; it may be repeated. */
static void look_after(struct quorum *quorum)
{
	quorum_collect(quorum);
	for (size_t i = 0; i < quorum->count; i++)
		if (quorum->votes[i].touched && quorum->peers[i].due_count == 0)
			quorum->votes[i].parted = false;
}

static size_t count_left(const struct quorum *quorum)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].touched ||
			 (quorum->enrolled && quorum->peers[i].due_count > 0);
	return count;
}

/* A majority decides. */
static bool is_over(struct quorum *quorum, struct lock_answer *answer)
{
	size_t released = quorum_count_word(quorum, WORD_YES);
	size_t gone = quorum_count_word(quorum, WORD_GONE);
	size_t lost = quorum_count_word(quorum, WORD_NO);

	answer->result = LOCK_RELEASED;
	if (quorum->fence == 0 && !by_token(quorum))
		return count_left(quorum) == 0 || released + gone + lost >= quorum->majority;
	if (released >= quorum->majority)
		return true;
	if (lost > quorum->count - quorum->majority) {
		tell_loss(quorum, answer);
		return true;
	}
	answer->result = LOCK_GONE;
	return released + gone >= quorum->majority;
}

static bool is_prompt_pending(const struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++)
		if (quorum->votes[i].prompt && quorum->votes[i].touched &&
			quorum->peers[i].due_count > 0)
			return true;
	return false;
}

/* The majority has decided. Those that were prompt so far get a little longer: a server that does
 * not know the script yet has to be sent it. */
static void hear_the_rest(struct quorum *quorum, nanos began)
{
	nanos until = clock_now() + SHARE_TIMES * (clock_now() - began) + SHARE_LEAST;

	while (is_prompt_pending(quorum) && peers_wait(quorum->peers, quorum->count,
						    (struct patience){until, -1}) == PATIENCE_READY)
		quorum_collect(quorum);
}

/* Nothing of this attempt is left, but where a server is silent: there it is on its way. */
static void forget(struct quorum *quorum)
{
	quorum->asked = quorum->enrolled = quorum->child = quorum->lost = false;
	quorum->spent = true;
	quorum->fence = 0;
	quorum->granted_at = 0;
	for (size_t i = 0; i < quorum->count; i++)
		peer_drop(&quorum->peers[i]);
}

static void prepare(struct quorum *quorum, const struct lock_parting *parting)
{
	static const struct lock_parting plain;

	unwatch(quorum);
	quorum_stop_listening(quorum);
	quorum->parting = parting ? *parting : plain;
	if (!quorum->child)
		catch_up(quorum);
	quorum->repeat = repeat_release;
	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];

		vote->word = WORD_NONE;
		vote->parted = false;
		vote->dialed_at = 0;
		/* A child may have asked those that this process could not. */
		vote->touched |= (quorum->child || by_token(quorum)) && quorum->asked;
	}
}

void quorum_release(struct lock *lock, const struct lock_parting *parting, struct patience patience,
	struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;

	nanos began;

	single_clear(answer);
	answer->result = LOCK_RELEASED;
	if (!quorum->asked && !quorum->enrolled)
		return;
	if (!quorum_sync(quorum, &answer->failure)) {
		answer->result = LOCK_FAILED;
		return;
	}
	prepare(quorum, parting);
	began = clock_now();
	for (;;) {
		struct patience limit = patience_within(patience, DIAL_PAUSE);
		enum patience_end end;

		send_releases(quorum);
		look_after(quorum);
		if (is_over(quorum, answer))
			break;
		end = peers_wait(quorum->peers, quorum->count, limit);
		if (end == PATIENCE_CANCELLED || clock_now() >= patience.until) {
			answer->result = end == PATIENCE_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
			return;
		}
	}
	hear_the_rest(quorum, began);
	forget(quorum);
}

/* --- Force ---------------------------------------------------------------------------------- */

static bool send_force(struct quorum *quorum, size_t which, bool in_full)
{
	struct call call;

	call_begin(&call, &script_force, &quorum->keys, quorum->token);
	return peer_send(&quorum->peers[which], (struct peer_due){PEER_FORCE, quorum->keyed}, &call,
		in_full);
}

static bool repeat_force(struct quorum *quorum, size_t which, enum peer_kind kind)
{
	return kind == PEER_FORCE && send_force(quorum, which, true);
}

/* The one who had it on most of those that answer, perhaps of several. */
static void tell_broken(struct quorum *quorum,
	void (*tell)(const struct lock_answer *held, void *context), void *context)
{
	struct lock_answer *held = &quorum->scratch;

	single_clear(held);
	quorum_busy(quorum, held);
	tell(held, context);
}

/* Once to each: a second one would hit whoever got the lock by the first. */
void quorum_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct patience patience, struct lock_answer *answer)
{
	struct quorum *quorum = (struct quorum *)lock;
	size_t answered = 0;
	enum patience_end end = PATIENCE_READY;

	single_clear(answer);
	quorum->repeat = repeat_force;
	for (size_t i = 0; i < quorum->count; i++)
		peer_connect(&quorum->peers[i]);
	while (answered < quorum->count && end == PATIENCE_READY) {
		size_t pending = 0;

		for (size_t i = 0; i < quorum->count; i++) {
			struct vote *vote = &quorum->votes[i];

			if (!vote->parted)
				vote->parted = send_force(quorum, i, false);
			pending += vote->word == WORD_NONE && !peer_is_down(&quorum->peers[i]);
		}
		if (pending == 0)
			break;
		/* Those that are slow get what a majority leaves them. */
		end = peers_wait(quorum->peers, quorum->count,
			answered >= quorum->majority ? patience_within(patience, FORCE_SHARE)
						     : patience);
		quorum_collect(quorum);
		answered = quorum->count - quorum_count_word(quorum, WORD_NONE);
	}
	if (answered < quorum->majority) {
		answer->result = end == PATIENCE_CANCELLED ? LOCK_CANCELLED : LOCK_FAILED;
		failure_set(&answer->failure, EXIT_UNREACHABLE,
			"only %zu of the quorum's %zu servers answer", answered, quorum->count);
		return;
	}
	answer->result = quorum_count_word(quorum, WORD_YES) > 0 ? LOCK_RELEASED : LOCK_GONE;
	if (answer->result == LOCK_RELEASED)
		tell_broken(quorum, tell, context);
}
