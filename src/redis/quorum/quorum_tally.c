/* What follows from what the servers of a quorum say. */
#include "redis/quorum/quorum.h"

#include <bsd/string.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "redis/script/replies.h"

size_t quorum_count(const struct quorum *quorum, enum vote_kind kind)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].kind == kind;
	return count;
}

size_t quorum_count_word(const struct quorum *quorum, enum vote_word word)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].word == word;
	return count;
}

size_t quorum_count_if(
	const struct quorum *quorum, bool (*is)(const struct vote *vote, const struct peer *peer))
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += is(&quorum->votes[i], &quorum->peers[i]);
	return count;
}

static bool is_pending(const struct vote *vote, const struct peer *peer)
{
	return vote->word == WORD_NONE && peer_may_answer(peer);
}

size_t quorum_count_pending(const struct quorum *quorum)
{
	return quorum_count_if(quorum, is_pending);
}

nanos quorum_proved_at(const struct quorum *quorum)
{
	nanos moments[QUORUM_MOST] = {0};

	for (size_t i = 0; i < quorum->count; i++)
		moments[i] = quorum->votes[i].proved_at;
	qsort(moments, quorum->count, sizeof(moments[0]), number_compare);
	return moments[quorum->count - quorum->majority];
}

/* Why a server does not count; code EXIT_DONE: it does, or may. */
static const struct failure *find_fault(const struct quorum *quorum, size_t which)
{
	static const struct failure none;
	const struct vote *vote = &quorum->votes[which];
	const struct peer *peer = &quorum->peers[which];

	if ((vote->kind == VOTE_NO || vote->word == WORD_FAULT) && vote->failure.code != EXIT_DONE)
		return &vote->failure;
	if (peer_is_refused(peer))
		return &peer->link.handshake.refusal;
	return vote->kind == VOTE_NONE ? &peer->failure : &none;
}

/* The first of those that refuse for good. */
static const struct failure *find_final(const struct quorum *quorum, size_t *count)
{
	const struct failure *first = NULL;

	*count = 0;
	for (size_t i = 0; i < quorum->count; i++) {
		const struct failure *fault = find_fault(quorum, i);

		if (fault->code == EXIT_DONE || fault->code == EXIT_UNREACHABLE)
			continue;
		++*count;
		if (!first)
			first = fault;
	}
	return first;
}

bool quorum_is_refused(const struct quorum *quorum)
{
	size_t final;

	find_final(quorum, &final);
	return final > quorum->count - quorum->majority;
}

struct failure *quorum_find_refusal(const struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++) {
		struct vote *vote = &quorum->votes[i];

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

void quorum_report_flaw(const struct quorum *quorum, struct lock_answer *answer)
{
	struct failure *refusal = quorum_find_refusal(quorum);

	if (!refusal)
		return;
	answer->flawed = true;
	answer->failure = *refusal;
	refusal->code = EXIT_DONE;
}

static bool has_answered(const struct vote *vote)
{
	if (vote->word != WORD_NONE)
		return vote->word != WORD_FAULT;
	return vote->kind != VOTE_NO && vote->kind != VOTE_NONE && vote->kind != VOTE_ASKED;
}

void quorum_explain(const struct quorum *quorum, struct failure *failure)
{
	size_t counting = 0, final;
	const struct failure *first = NULL, *first_final = find_final(quorum, &final);

	for (size_t i = 0; i < quorum->count; i++) {
		const struct failure *fault = find_fault(quorum, i);

		counting += has_answered(&quorum->votes[i]);
		if (!first && fault->code != EXIT_DONE)
			first = fault;
	}
	/* What waiting will not mend is said if it alone prevents a majority. */
	if (final > quorum->count - quorum->majority) {
		*failure = *first_final;
		return;
	}
	failure_set(failure, EXIT_UNREACHABLE,
		"only %zu of the quorum's %zu servers answer%s%s%s%s", counting, quorum->count,
		counting == 1 ? "s" : "", first ? " (" : "", first ? first->text : "",
		first ? ")" : "");
}

/* How many say that it is this one's, and which of them to quote. */
static size_t count_holder(const struct quorum *quorum, size_t which)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->votes[i].kind == VOTE_BUSY &&
			 strcmp(quorum->votes[i].holder, quorum->votes[which].holder) == 0;
	return count;
}

/* The first vote for the holder that most votes name; quorum->count if none names one. */
static size_t find_holder(const struct quorum *quorum, bool claimed, size_t *times)
{
	size_t best = quorum->count;

	*times = 0;
	for (size_t i = 0; i < quorum->count; i++) {
		const struct vote *vote = &quorum->votes[i];

		if (vote->kind != VOTE_BUSY || (claimed && !vote->claimed))
			continue;
		if (count_holder(quorum, i) > *times) {
			*times = count_holder(quorum, i);
			best = i;
		}
	}
	return best;
}

/* When enough of those that are busy come free by expiry; -1: never by themselves. */
static int64_t free_in_ms(const struct quorum *quorum)
{
	int64_t moments[QUORUM_MOST];
	size_t count = 0, missing;

	for (size_t i = 0; i < quorum->count; i++) {
		const struct vote *vote = &quorum->votes[i];

		if (vote->kind == VOTE_BUSY)
			moments[count++] = vote->free_in_ms < 0 ? INT64_MAX : vote->free_in_ms;
	}
	if (count == 0)
		return 0;
	qsort(moments, count, sizeof(moments[0]), number_compare);
	missing = quorum->majority - quorum_count(quorum, VOTE_GRANTED);
	if (missing > count)
		missing = count;
	return moments[missing - 1] == INT64_MAX ? -1 : moments[missing - 1];
}

/* When a majority could promise the lock, if the servers that started lately did; how long the last
 * of them has been up. 0: not even then. */
static int64_t settling_ms(const struct quorum *quorum, int64_t *up_ms)
{
	size_t granted = quorum_count(quorum, VOTE_GRANTED), count = 0;
	int64_t moments[QUORUM_MOST];

	for (size_t i = 0; i < quorum->count; i++) {
		const struct vote *vote = &quorum->votes[i];

		if (vote->kind != VOTE_BUSY || vote->settling_ms == 0)
			continue;
		if (count == 0 || vote->up_ms < *up_ms)
			*up_ms = vote->up_ms;
		moments[count++] = vote->settling_ms;
	}
	if (count == 0 || granted + count < quorum->majority)
		return 0;
	qsort(moments, count, sizeof(moments[0]), number_compare);
	return granted >= quorum->majority ? moments[0] : moments[quorum->majority - granted - 1];
}

void quorum_record_settling(struct quorum *quorum, const struct lock_answer *answer)
{
	quorum->settled_at = clock_now() + answer->settling_ms * NANOS_PER_MS + REPLIES_LOOK_AFTER;
}

void quorum_busy(struct quorum *quorum, struct lock_answer *answer)
{
	size_t times;
	size_t which = find_holder(quorum, true, &times);

	if (which == quorum->count)
		which = find_holder(quorum, false, &times);
	answer->result = LOCK_BUSY;
	answer->rank = -1;
	answer->free_in_ms = free_in_ms(quorum);
	answer->settling_ms = settling_ms(quorum, &answer->up_ms);
	quorum_record_settling(quorum, answer);
	answer->look_at = answer->free_in_ms < 0 ? NANOS_NEVER
						 : clock_now() + answer->free_in_ms * NANOS_PER_MS +
							   REPLIES_LOOK_AFTER;
	if (which == quorum->count)
		return;

	const struct vote *vote = &quorum->votes[which];

	strlcpy(answer->holder_token, vote->holder, sizeof(answer->holder_token));
	answer->foreign = vote->foreign ? REPLIES_FOREIGN : NULL;
	answer->known = vote->known;
	answer->detached = vote->detached;
	answer->holder = vote->owner;
	answer->held_ms = vote->held_ms;
}

void quorum_verdict(struct quorum *quorum, struct lock_answer *answer)
{
	size_t silent = quorum_count(quorum, VOTE_NONE) + quorum_count(quorum, VOTE_ASKED) +
			quorum_count(quorum, VOTE_NO);
	size_t times, off = 0;

	answer->result = LOCK_FAILED;
	if (quorum->count - silent < quorum->majority) {
		quorum_explain(quorum, &answer->failure);
		return;
	}
	for (size_t i = 0; i < quorum->count; i++)
		off += quorum->votes[i].kind == VOTE_BUSY && quorum->votes[i].holder[0] == '\0';
	find_holder(quorum, true, &times);
	/* A busy server that names no holder grants nothing for a while (--settle). Servers that
	 * are silent may have the lock's holder as well. */
	if (off + silent > quorum->count - quorum->majority ||
		(times > 0 && times + silent >= quorum->majority))
		quorum_busy(quorum, answer);
	else
		answer->result = LOCK_LOST;
}
