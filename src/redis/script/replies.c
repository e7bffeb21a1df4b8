/* The reply to a request to acquire: see acquire.lua. */
#include "redis/script/replies.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <limits.h>

#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/link/link.h"

_Static_assert(sizeof(struct replies_own) <= LOCK_OWN_SIZE, "it has to fit into an answer");

const struct replies_own *replies_own(const struct lock_answer *answer)
{
	return (const struct replies_own *)(const void *)answer->own;
}

static struct replies_own *own_of(struct lock_answer *answer)
{
	return (struct replies_own *)(void *)answer->own;
}

static uint64_t read_fence(const struct reply *reply)
{
	return (uint64_t)reply_within(reply, 0, REPLIES_US_MOST);
}

static void fail_nonsense(const struct link *link, struct lock_answer *answer)
{
	answer->result = LOCK_FAILED;
	error_reply_nonsense(&answer->failure, link_server_name(link));
}

/* A fencing token that a resource cannot compare is none. */
static void read_grant(const struct link *link, const struct reply *reply,
	struct lock_answer *answer, struct handed *handed)
{
	int64_t fence = reply_integer(reply_at(reply, 2));

	if (fence < 1 || fence > REPLIES_US_MOST) {
		fail_nonsense(link, answer);
		return;
	}
	answer->result = LOCK_GRANTED;
	answer->asked_at = link->sent_at;
	answer->granted_at = clock_now();
	own_of(answer)->since_us = reply_within(reply_at(reply, 1), 0, REPLIES_US_MOST);
	answer->fence = (uint64_t)fence;
	own_of(answer)->generation = read_fence(reply_at(reply, 3));
	replies_read_handed(reply_at(reply, 4), handed);
	answer->unsettled = reply_integer(reply_at(reply, 5)) == 1;
	answer->has_slot = reply_at(reply, 6) != NULL;
	answer->slot = (int)reply_within(reply_at(reply, 6), 0, INT_MAX);
}

static void read_busy(const struct reply *reply, struct lock_answer *answer, struct handed *handed)
{
	int64_t now_us = reply_within(reply_at(reply, 1), 0, REPLIES_US_MOST);
	int64_t left = reply_within(reply_at(reply, 5), -1, REPLIES_MS_MOST);
	const char *token = reply_text(reply_at(reply, 6));
	struct owner_record record;

	answer->result = LOCK_BUSY;
	answer->fence = read_fence(reply_at(reply, 2));
	own_of(answer)->ticket = (uint64_t)reply_integer(reply_at(reply, 3));
	answer->rank = (int)reply_within(reply_at(reply, 4), -1, REPLIES_RANK_MOST);
	answer->free_in_ms = left;
	answer->look_at =
		left < 0 ? NANOS_NEVER : clock_now() + left * NANOS_PER_MS + REPLIES_LOOK_AFTER;
	strlcpy(answer->holder_token, token ? token : "", sizeof(answer->holder_token));
	answer->known = owner_record_read(&record, reply_text(reply_at(reply, 7)));
	answer->foreign =
		!answer->known && answer->holder_token[0] != '\0' ? REPLIES_FOREIGN : NULL;
	if (answer->known) {
		answer->holder = record.owner;
		answer->held_ms = record.claimed ? (now_us - record.moment) / 1000 : 0;
		own_of(answer)->claimed = record.claimed;
	}
	replies_read_handed(reply_at(reply, 8), handed);
	answer->settling_ms = reply_within(reply_at(reply, 9), 0, REPLIES_MS_MOST);
	answer->up_ms = reply_within(reply_at(reply, 10), 0, REPLIES_MS_MOST);
}

static void read_already(
	const struct reply *reply, struct lock_answer *answer, struct handed *handed)
{
	int64_t now_us = reply_within(reply_at(reply, 1), 0, REPLIES_US_MOST);
	const char *text = reply_text(reply_at(reply, 2));

	answer->result = LOCK_ALREADY;
	run_read(&answer->done, text, now_us);
	replies_read_handed(reply_at(reply, 3), handed);
}

static void read_size(
	const struct link *link, const struct reply *reply, struct lock_answer *answer)
{
	answer->result = LOCK_FAILED;
	failure_set(&answer->failure, EXIT_CONFIG,
		"%s has a quorum of %" PRId64
		" servers on record for this lock, but the server URL lists another number; list "
		"the same servers everywhere",
		link_server_name(link), reply_integer(reply_at(reply, 1)));
}

void replies_read_take(const struct link *link, const struct reply *reply,
	struct lock_answer *answer, struct handed *handed)
{
	strlcpy(answer->server, link->route.text, sizeof(answer->server));
	if (reply_says(reply, "granted")) {
		read_grant(link, reply, answer, handed);
	} else if (reply_says(reply, "busy")) {
		read_busy(reply, answer, handed);
	} else if (reply_says(reply, "size")) {
		read_size(link, reply, answer);
	} else if (reply_says(reply, "already")) {
		read_already(reply, answer, handed);
	} else if (reply_says(reply, "twice")) {
		answer->result = LOCK_FAILED;
		failure_set(&answer->failure, EXIT_USAGE,
			"%s is also one of the other servers in the server URL: each may be listed "
			"once",
			link_server_name(link));
	} else if (reply_says(reply, "ended")) {
		answer->result = LOCK_LOST;
	} else {
		fail_nonsense(link, answer);
	}
}

void replies_read_handed(const struct reply *list, struct handed *handed)
{
	handed->count = 0;
	handed->tokens[0][0] = '\0';
	for (size_t i = 0; i < reply_count(list) && i < HANDED_MOST; i++) {
		const char *token = reply_text(reply_at(list, i));

		if (token)
			strlcpy(handed->tokens[handed->count++], token, LOCK_TOKEN_SIZE);
	}
}

bool replies_read_denial(const struct reply *reply, struct lock_answer *answer)
{
	static const struct {
		const char *word, *reason;
	} denials[] = {
		{"denied", "not held with this token: it is wrong, or has expired"},
		{"ended", "the lock was released with this token before"},
		{"attended", "the token is that of a holder that still runs and releases the lock "
			     "itself; --force releases it all the same"},
	};

	for (size_t i = 0; i < sizeof(denials) / sizeof(denials[0]); i++) {
		if (!reply_says(reply, denials[i].word))
			continue;
		answer->result = LOCK_LOST;
		failure_set(&answer->failure, EXIT_BUSY, "%s", denials[i].reason);
		return true;
	}
	return false;
}
