#include "lock_set_own.h"

#include <bsd/string.h>
#include <stddef.h>
#include <string.h>

#define UNDO_LIMIT  (500 * NANOS_PER_MS) /* for giving all back when one was lost meanwhile */
#define RETRY_PAUSE (300 * NANOS_PER_MS)

bool member_is_ours(const struct member *member)
{
	return !member->within;
}

void member_note_grant(struct member *member)
{
	const struct lock_answer *answer = &member->answer;

	member->within = answer->result == LOCK_WITHIN;
	member->fence = answer->fence;
	member->asked_at = answer->asked_at;
	strlcpy(member->token, member->within ? answer->holder_token : lock_token(member->lock),
		sizeof(member->token));
}

nanos set_oldest(const struct lock_set *set)
{
	nanos oldest = NANOS_NEVER;

	for (size_t i = 0; i < set->next; i++)
		if (member_is_ours(&set->members[i]) && set->members[i].asked_at < oldest)
			oldest = set->members[i].asked_at;
	return oldest;
}

nanos set_refresh_due(const struct lock_set *set)
{
	nanos due = clock_after(set_oldest(set), set->renew_every);

	return due < set->retry_at ? set->retry_at : due;
}

/* The result that counts of two: what is worse. */
static enum lock_result worse(enum lock_result a, enum lock_result b)
{
	static const enum lock_result order[] = {
		LOCK_LOST, LOCK_CANCELLED, LOCK_FAILED, LOCK_TIMEOUT, LOCK_GONE, LOCK_SET_AGAIN};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (a == order[i] || b == order[i])
			return order[i];
	return a;
}

/* The one that was taken last first, so that nobody who waits for several is woken for nothing. */
static enum lock_result give_back(struct lock_set *set, const struct lock_parting *parting,
	struct patience patience, struct failure *failure)
{
	enum lock_result result = LOCK_RELEASED;

	for (size_t i = set->count; i-- > 0;) {
		struct member *member = &set->members[i];
		struct lock_parting own = parting ? *parting : (struct lock_parting){0};

		if (!member->asked)
			continue;
		/* The success is that of NAME. */
		if (parting && i != set->named)
			own.success = false;
		lock_release(member->lock, parting ? &own : NULL, patience, &member->answer);
		if (member->answer.result == LOCK_FAILED)
			*failure = member->answer.failure;
		result = worse(result, member->answer.result);
	}
	set->next = 0;
	return result;
}

void set_refresh(struct lock_set *set, struct patience patience)
{
	static struct lock_answer answer; /* large */
	struct failure unheard;

	if (clock_now() < set_refresh_due(set))
		return;
	set->retry_at = clock_now() + RETRY_PAUSE;
	for (size_t i = 0; i < set->next; i++) {
		struct member *member = &set->members[i];

		if (!member_is_ours(member))
			continue;
		lock_renew(member->lock, patience, &answer);
		if (answer.result == LOCK_GRANTED || answer.result == LOCK_SET_AGAIN)
			member->asked_at = answer.asked_at;
		if (answer.result == LOCK_LOST) {
			give_back(
				set, 0, (struct patience){clock_now() + UNDO_LIMIT, -1}, &unheard);
			return;
		}
	}
}

void set_renew(struct lock *lock, struct patience patience, struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;
	enum lock_result result = LOCK_GRANTED;
	struct failure failure = {0};

	for (size_t i = 0; i < set->count && result != LOCK_LOST && result != LOCK_CANCELLED; i++) {
		struct member *member = &set->members[i];

		if (!member_is_ours(member))
			continue;
		lock_renew(member->lock, patience, answer);
		if (answer->result == LOCK_GRANTED || answer->result == LOCK_SET_AGAIN)
			member->asked_at = answer->asked_at;
		if (answer->result == LOCK_FAILED)
			failure = answer->failure;
		result = worse(result, answer->result);
	}
	answer->result = result;
	answer->failure = failure;
	answer->asked_at = set_oldest(set);
	answer->fence = set->members[set->named].fence;
}

static int count_handed(const struct lock_set *set)
{
	int count = 0;

	for (size_t i = 0; i < set->count; i++)
		if (set->members[i].asked)
			count += set->members[i].answer.handed_count;
	return count;
}

void set_release(struct lock *lock, const struct lock_parting *parting, struct patience patience,
	struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;

	memset(answer, 0, offsetof(struct lock_answer, handed));
	answer->result = give_back(set, parting, patience, &answer->failure);
	answer->handed_count = count_handed(set);
}

/* Each has its own list, of which the caller knows only how many are in them all. */
enum lock_result set_verify(struct lock *lock, struct lock_answer *answer, struct patience patience)
{
	struct lock_set *set = (struct lock_set *)lock;
	enum lock_result result = LOCK_RELEASED;

	for (size_t i = 0; i < set->count; i++) {
		struct member *member = &set->members[i];

		if (member->asked && member->answer.handed_count > 0)
			result =
				worse(result, lock_verify(member->lock, &member->answer, patience));
	}
	answer->handed_count = count_handed(set);
	return result;
}
