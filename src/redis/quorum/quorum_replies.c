/* What the servers of a quorum say. */
#include "redis/quorum/quorum.h"

#include <bsd/string.h>
#include <stdio.h>
#include <string.h>

#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/script/replies.h"

static void refuse(struct vote *vote, const struct failure *failure)
{
	vote->kind = VOTE_NO;
	vote->failure = *failure;
}

static void fault(struct vote *vote, const struct failure *failure)
{
	vote->word = WORD_FAULT;
	vote->failure = *failure;
}

static void record_nonsense(struct vote *vote, const struct peer *peer)
{
	vote->word = WORD_FAULT;
	error_reply_nonsense(&vote->failure, peer->name);
}

static void read_busy(
	struct vote *vote, const struct reply *reply, const struct lock_answer *answer)
{
	struct owner_record record;

	vote->kind = VOTE_BUSY;
	vote->touched = false;
	strlcpy(vote->holder, answer->holder_token, sizeof(vote->holder));
	vote->foreign = answer->foreign != NULL;
	vote->known = answer->known;
	vote->owner = answer->holder;
	vote->held_ms = answer->held_ms;
	vote->free_in_ms = answer->free_in_ms;
	vote->settling_ms = answer->settling_ms;
	vote->up_ms = answer->up_ms;
	vote->claimed =
		vote->foreign ||
		(owner_record_read(&record, reply_text(reply_at(reply, 7))) && record.claimed);
}

static void refuse_twice(const struct quorum *quorum, struct vote *vote, const struct peer *peer)
{
	vote->kind = VOTE_NO;
	failure_set(&vote->failure, EXIT_USAGE,
		"%s is also one of the other servers in %s: each may be listed once", peer->name,
		quorum->server);
}

/* A promise is told apart from one to our own attempt that was here by another name already. */
static void read_vote(struct quorum *quorum, size_t which, const struct reply *reply)
{
	struct vote *vote = &quorum->votes[which];
	struct peer *peer = &quorum->peers[which];
	struct lock_answer *answer = &quorum->scratch;
	const char *word = reply_text(reply_at(reply, 0));

	if (peer->link.handshake.refusal.code != EXIT_DONE) {
		refuse(vote, &peer->link.handshake.refusal);
		return;
	}
	if (word && strcmp(word, "twice") == 0) {
		refuse_twice(quorum, vote, peer);
		return;
	}
	memset(answer, 0, sizeof(*answer));
	replies_read_take(&peer->link, reply, answer, NULL);
	switch (answer->result) {
	case LOCK_GRANTED:
		vote->kind = VOTE_GRANTED;
		vote->fence = answer->fence;
		vote->since_us = replies_own(answer)->since_us;
		vote->unsettled = answer->unsettled;
		break;
	case LOCK_BUSY:
		read_busy(vote, reply, answer);
		break;
	case LOCK_ALREADY:
		vote->kind = VOTE_ALREADY;
		vote->touched = false;
		vote->done = answer->done;
		break;
	case LOCK_FAILED:
		refuse(vote, &answer->failure);
		break;
	default: /* ended: this attempt was taken back there */
		vote->kind = VOTE_NO;
		failure_set(&vote->failure, EXIT_UNREACHABLE, "%s was too late", peer->name);
		break;
	}
}

/* Counts only behind a promise: if there was none, the lock is ours by another name of that
 * server. */
static void read_confirmation(const struct quorum *quorum, size_t which, const char *word)
{
	struct vote *vote = &quorum->votes[which];
	bool confirmed = strcmp(word, "confirmed") == 0;

	if (vote->kind != VOTE_GRANTED) {
		if (confirmed)
			refuse_twice(quorum, vote, &quorum->peers[which]);
		return;
	}
	vote->kind = VOTE_NO;
	if (!confirmed)
		return;
	vote->had = true;
	vote->proved_at = quorum->asked_at;
	/* A promise that came after the token was made may be of a server that has lost its
	 * counter: then only its clock, which is in the promise, knows of a token that was granted
	 * before (docs/model, NO_PROMISE). */
	if (vote->fence <= quorum->fence)
		vote->kind = VOTE_CONFIRMED;
}

static const struct word {
	const char *text; /* NULL: the end */
	enum vote_word word;
} renewals[] = {{"extended", WORD_YES}, {"again", WORD_AGAIN}, {"denied", WORD_NO},
	{"ended", WORD_NO}, {"attended", WORD_NO}, {NULL, WORD_NONE}},
  releases[] = {{"released", WORD_YES}, {"gone", WORD_GONE}, {"lost", WORD_NO}, {"denied", WORD_NO},
	  {"ended", WORD_NO}, {"attended", WORD_NO}, {NULL, WORD_NONE}};

/* False: it is none of these. */
static bool read_word(struct vote *vote, const struct word *words, const char *text)
{
	while (words->text && strcmp(text, words->text) != 0)
		words++;
	if (words->text)
		vote->word = words->word;
	return words->text != NULL;
}

static void read_renewal(struct vote *vote, const struct peer *peer, const char *text)
{
	vote->renewing = false;
	if (!read_word(vote, renewals, text))
		record_nonsense(vote, peer);
	/* A server that has it for the first time has lost nothing. */
	if (vote->word == WORD_AGAIN && !vote->had)
		vote->word = WORD_YES;
	if (vote->word == WORD_YES || vote->word == WORD_AGAIN) {
		vote->had = vote->touched = true;
		vote->proved_at = vote->sent_at;
	}
}

/* False: it is no answer to a release. */
static bool read_release(struct vote *vote, const char *text)
{
	if (!read_word(vote, releases, text))
		return false;
	vote->touched = false;
	return true;
}

/* The holder that lost the lock is read as that of a busy lock would be. */
static void read_force(
	struct vote *vote, const struct peer *peer, const struct reply *reply, const char *word)
{
	int64_t now_us = reply_within(reply_at(reply, 1), 0, REPLIES_US_MOST);
	struct owner_record record;

	bool off = strcmp(word, "off") == 0;

	vote->word = off || strcmp(word, "broken") == 0 ? WORD_YES : WORD_GONE;
	if (vote->word == WORD_GONE && strcmp(word, "free") != 0)
		record_nonsense(vote, peer);
	if (vote->word != WORD_YES)
		return;
	vote->kind = VOTE_BUSY;
	vote->free_in_ms = reply_within(reply_at(reply, 2), -1, REPLIES_MS_MOST);
	if (off)
		return;
	vote->known = owner_record_read(&record, reply_text(reply_at(reply_at(reply, 3), 0)));
	vote->foreign = !vote->known;
	vote->claimed = true;
	if (!vote->known)
		return;
	vote->owner = record.owner;
	vote->held_ms = record.claimed ? (now_us - record.moment) / 1000 : 0;
	vote->detached = record.detached;
	snprintf(vote->holder, sizeof(vote->holder), "%.60s:%d", record.owner.host,
		(int)record.owner.pid);
}

/* A script that the server does not know yet: what was sent behind others was sent in full. */
static bool is_to_be_repeated(const struct peer *peer, enum error_reply_kind kind)
{
	return kind == ERROR_REPLY_NO_SCRIPT && peer->due_count == 0;
}

static void handle_error(
	struct quorum *quorum, size_t which, const struct peer_due *what, const char *text)
{
	struct peer *peer = &quorum->peers[which];
	struct vote *vote = &quorum->votes[which];
	struct failure failure;
	enum error_reply_kind kind = error_reply_read(text, peer->name, &failure);

	if (peer->link.handshake.refusal.code != EXIT_DONE)
		failure = peer->link.handshake.refusal;
	if (kind == ERROR_REPLY_WRONG_TYPE)
		failure_set(&failure, EXIT_PROTOCOL,
			"the key '%s' on %s holds other data than a lock and was left alone; use "
			"another NAME or --prefix",
			quorum->keys.lock, peer->name);
	vote->renewing = false;
	if (is_to_be_repeated(peer, kind) && (quorum->repeats & QUORUM_REPEAT(what->kind)) &&
		quorum_send(quorum, which, what->kind, true)) {
		quorum->cold = true;
		return;
	}
	if (what->kind == PEER_ACQUIRE)
		refuse(vote, &failure);
	else
		fault(vote, &failure);
	if (kind == ERROR_REPLY_MOVED_AWAY)
		peer_drop(peer);
}

static void heed(
	struct quorum *quorum, size_t which, const struct peer_due *what, const struct reply *reply)
{
	struct vote *vote = &quorum->votes[which];
	const struct peer *peer = &quorum->peers[which];
	const char *word = reply_text(reply_at(reply, 0));

	if (what->tag != quorum->keyed)
		return;
	if (reply_error(reply)) {
		handle_error(quorum, which, what, reply_error(reply));
		return;
	}
	/* If another process has read some of the replies, this one may come sooner. */
	if (word && quorum->orphaned && read_release(vote, word))
		return;
	switch (what->kind) {
	case PEER_ACQUIRE:
		if (vote->kind == VOTE_ASKED)
			read_vote(quorum, which, reply);
		vote->replied_at = clock_now();
		break;
	case PEER_CONFIRM:
		read_confirmation(quorum, which, word ? word : "");
		break;
	case PEER_FORCE:
		read_force(vote, peer, reply, word ? word : "");
		break;
	case PEER_RENEW:
		read_renewal(vote, peer, word ? word : "");
		break;
	default:
		if (!read_release(vote, word ? word : ""))
			record_nonsense(vote, peer);
		break;
	}
}

void quorum_collect(struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++) {
		struct peer *peer = &quorum->peers[i];
		struct vote *vote = &quorum->votes[i];
		struct peer_due what;
		struct reply *reply;

		while (peer_take(peer, &what, &reply)) {
			heed(quorum, i, &what, reply);
			reply_free(reply);
		}
		if (peer->due_count > 0)
			continue;
		vote->renewing = false;
		if (vote->kind == VOTE_ASKED && peer_is_down(peer)) {
			refuse(vote, &peer->failure);
		} else if (vote->kind == VOTE_ASKED && peer->link.connection) {
			/* At another address than what was tried; not while that is looked up. */
			vote->kind = VOTE_NONE;
			vote->touched = false;
		}
	}
}

void quorum_collect_while(struct quorum *quorum,
	bool (*is)(const struct vote *vote, const struct peer *peer), struct deadline deadline)
{
	while (quorum_count_if(quorum, is) > 0 &&
		peers_wait(quorum->peers, quorum->count, &deadline) == DEADLINE_READY)
		quorum_collect(quorum);
}
