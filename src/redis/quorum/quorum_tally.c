/* The conclusions from the answers of the servers of a quorum. */
#include "redis/quorum/quorum.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "redis/script/replies.h"

size_t quorum_count(const struct quorum *quorum, enum vote vote)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->voters[i].vote == vote;
	return count;
}

size_t quorum_count_word(const struct quorum *quorum, enum lock_result word)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->voters[i].word == word;
	return count;
}

size_t quorum_count_if(const struct quorum *quorum, voter_test is)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += is(&quorum->voters[i]);
	return count;
}

bool quorum_is_blocked(const struct quorum *quorum, size_t count)
{
	return count > quorum->count - quorum->majority;
}

/* Number `nth`, from 0, in ascending order; the last if there are not so many. */
static int64_t nth_least(int64_t *numbers, size_t count, size_t nth)
{
	qsort(numbers, count, sizeof(*numbers), number_compare);
	return numbers[nth < count ? nth : count - 1];
}

nanos quorum_proved_at(const struct quorum *quorum)
{
	nanos moments[QUORUM_MOST] = {0};

	for (size_t i = 0; i < quorum->count; i++)
		moments[i] = quorum->voters[i].proved_at;
	return nth_least(moments, quorum->count, quorum->count - quorum->majority);
}

const struct failure *quorum_find_refusal(const struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++) {
		const struct voter *voter = &quorum->voters[i];

		if (voter->vote == VOTE_NO &&
			(voter->failure.code == EXIT_USAGE || voter->failure.code == EXIT_CONFIG))
			return &voter->failure;
	}
	return NULL;
}

static bool has_answered(const struct voter *voter)
{
	return (voter->word != LOCK_TIMEOUT && voter->word != LOCK_CANCELLED &&
		       voter->word != LOCK_FAILED) ||
	       (voter->vote != VOTE_NO && voter->vote != VOTE_NONE);
}

static bool is_refusing(const struct voter *voter)
{
	return voter->failure.code != EXIT_DONE && voter->failure.code != EXIT_UNREACHABLE;
}

/* A fault that waiting will not mend is said if such faults alone prevent a majority. */
bool quorum_explain(const struct quorum *quorum, struct failure *failure)
{
	bool for_good = quorum_is_blocked(quorum, quorum_count_if(quorum, is_refusing));
	size_t counting = quorum_count_if(quorum, has_answered);
	const struct failure *first = NULL;

	for (size_t i = 0; i < quorum->count && !first; i++) {
		const struct voter *voter = &quorum->voters[i];

		if (for_good ? is_refusing(voter) : voter->failure.code != EXIT_DONE)
			first = &voter->failure;
	}
	if (for_good)
		*failure = *first;
	else
		failure_set(failure, EXIT_UNREACHABLE,
			"only %zu of the quorum's %zu servers answer%s%s%s%s", counting,
			quorum->count, counting == 1 ? "s" : "", first ? " (" : "",
			first ? first->text : "", first ? ")" : "");
	return for_good;
}

/* How many say that it is this one's. */
static size_t count_holder(const struct quorum *quorum, const struct voter *one)
{
	size_t count = 0;

	for (size_t i = 0; i < quorum->count; i++)
		count += quorum->voters[i].vote == VOTE_BUSY &&
			 strcmp(quorum->voters[i].answer.holder_token, one->answer.holder_token) ==
				 0;
	return count;
}

/* The holder's grant is complete, or it is no dlock; else it only tries. */
static bool is_claimed(const struct voter *voter)
{
	return voter->answer.foreign || replies_own(&voter->answer)->claimed;
}

/* The first vote for the holder that most votes name; NULL: none names one. */
static const struct voter *find_holder(const struct quorum *quorum, bool claimed, size_t *times)
{
	const struct voter *best = NULL;

	*times = 0;
	for (size_t i = 0; i < quorum->count; i++) {
		const struct voter *voter = &quorum->voters[i];

		if (voter->vote != VOTE_BUSY || (claimed && !is_claimed(voter)) ||
			count_holder(quorum, voter) <= *times)
			continue;
		*times = count_holder(quorum, voter);
		best = voter;
	}
	return best;
}

/* When enough of those that are busy come free by expiry (-1: never by themselves), and when a
 * majority could promise the lock, if servers that started lately did (0: not even then), with how
 * long the last of these has been up. */
static void reckon(const struct quorum *quorum, struct lock_answer *answer)
{
	size_t granted = quorum_count(quorum, VOTE_GRANTED), busy = 0, settling = 0;
	size_t missing = granted < quorum->majority ? quorum->majority - granted : 1;
	int64_t expiries[QUORUM_MOST], waits[QUORUM_MOST], expiry;

	answer->free_in_ms = answer->settling_ms = answer->up_ms = 0;
	for (size_t i = 0; i < quorum->count; i++) {
		const struct lock_answer *one = &quorum->voters[i].answer;

		if (quorum->voters[i].vote != VOTE_BUSY)
			continue;
		expiries[busy++] = one->free_in_ms < 0 ? INT64_MAX : one->free_in_ms;
		if (one->settling_ms == 0)
			continue;
		if (settling == 0 || one->up_ms < answer->up_ms)
			answer->up_ms = one->up_ms;
		waits[settling++] = one->settling_ms;
	}
	if (busy == 0)
		return;
	expiry = nth_least(expiries, busy, missing - 1);
	answer->free_in_ms = expiry == INT64_MAX ? -1 : expiry;
	if (settling >= missing)
		answer->settling_ms = nth_least(waits, settling, missing - 1);
}

void quorum_busy(struct quorum *quorum, struct lock_answer *answer)
{
	size_t times;
	const struct voter *voter = find_holder(quorum, true, &times);

	if (!voter)
		voter = find_holder(quorum, false, &times);
	*answer = voter ? voter->answer : (struct lock_answer){0};
	answer->result = LOCK_BUSY;
	answer->rank = -1;
	reckon(quorum, answer);
	quorum->settled_at = clock_now() + answer->settling_ms * NANOS_PER_MS + REPLIES_LOOK_AFTER;
	answer->look_at = answer->free_in_ms < 0 ? NANOS_NEVER
						 : clock_now() + answer->free_in_ms * NANOS_PER_MS +
							   REPLIES_LOOK_AFTER;
}

/* The server grants nothing for a while (--settle). */
static bool is_off(const struct voter *voter)
{
	return voter->vote == VOTE_BUSY && voter->answer.holder_token[0] == '\0';
}

void quorum_verdict(struct quorum *quorum, struct lock_answer *answer)
{
	size_t silent = quorum_count(quorum, VOTE_NONE) + quorum_count(quorum, VOTE_NO);
	size_t times;

	find_holder(quorum, true, &times);
	if (quorum_is_blocked(quorum, silent)) {
		answer->result = LOCK_FAILED;
		quorum_explain(quorum, &answer->failure);
	} else if (quorum_is_blocked(quorum, quorum_count_if(quorum, is_off) + silent) ||
		   (times > 0 && times + silent >= quorum->majority)) {
		/* Servers that are silent may have the lock's holder as well. */
		quorum_busy(quorum, answer);
	} else {
		answer->result = LOCK_LOST;
	}
}
