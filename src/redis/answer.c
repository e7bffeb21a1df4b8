/* The reply to a request to acquire: see acquire.lua. */
#include "redis/single.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <string.h>

#include "redis/connection.h"
#include "redis/fault.h"

#define LOOK_AFTER (5 * NANOS_PER_MS) /* an expiry, so that it is surely past */

static uint64_t read_fence(const struct reply *reply)
{
	return (uint64_t)reply_within(reply, 0, SINGLE_US_MOST);
}

static void fail_nonsense(const struct session *session, struct lock_answer *answer)
{
	answer->result = LOCK_FAILED;
	fault_nonsense(&answer->failure, session_peer(session));
}

/* A fencing token that nobody can compare is none. */
static void read_grant(
	const struct session *session, const struct reply *reply, struct lock_answer *answer)
{
	int64_t fence = reply_integer(reply_at(reply, 2));

	if (fence < 1 || fence > SINGLE_US_MOST) {
		fail_nonsense(session, answer);
		return;
	}
	answer->result = LOCK_GRANTED;
	answer->asked_at = session->sent_at;
	answer->granted_at = clock_now();
	answer->since_us = reply_within(reply_at(reply, 1), 0, SINGLE_US_MOST);
	answer->fence = (uint64_t)fence;
	answer->generation = read_fence(reply_at(reply, 3));
	single_read_handed(reply_at(reply, 4), answer);
}

static void read_busy(const struct reply *reply, struct lock_answer *answer)
{
	int64_t now_us = reply_within(reply_at(reply, 1), 0, SINGLE_US_MOST);
	int64_t left = reply_within(reply_at(reply, 5), -1, SINGLE_MS_MOST);
	const char *token = reply_text(reply_at(reply, 6));
	struct record record;

	answer->result = LOCK_BUSY;
	answer->fence = read_fence(reply_at(reply, 2));
	answer->ticket = (uint64_t)reply_integer(reply_at(reply, 3));
	answer->rank = (int)reply_within(reply_at(reply, 4), -1, SINGLE_RANK_MOST);
	answer->free_in_ms = left;
	answer->look_at = left < 0 ? NANOS_NEVER : clock_now() + left * NANOS_PER_MS + LOOK_AFTER;
	strlcpy(answer->holder_token, token ? token : "", sizeof(answer->holder_token));
	answer->known = record_read(&record, reply_text(reply_at(reply, 7)));
	answer->foreign = !answer->known && answer->holder_token[0] != '\0';
	if (answer->known) {
		answer->holder = record.party;
		answer->held_ms = record.claimed ? (now_us - record.moment) / 1000 : 0;
	}
	single_read_handed(reply_at(reply, 8), answer);
}

static void read_within(
	const struct session *session, const struct reply *reply, struct lock_answer *answer)
{
	const char *token = reply_text(reply_at(reply, 2));

	answer->result = LOCK_WITHIN;
	answer->asked_at = session->sent_at;
	strlcpy(answer->holder_token, token ? token : "", sizeof(answer->holder_token));
	answer->fence = read_fence(reply_at(reply, 3));
}

static void read_already(const struct reply *reply, struct lock_answer *answer)
{
	answer->result = LOCK_ALREADY;
	answer->done_ms = (reply_within(reply_at(reply, 1), 0, SINGLE_US_MOST) -
				  reply_within(reply_at(reply, 2), 0, SINGLE_US_MOST)) /
			  1000;
	if (answer->done_ms < 0)
		answer->done_ms = 0;
	single_read_handed(reply_at(reply, 3), answer);
}

static void read_size(
	const struct session *session, const struct reply *reply, struct lock_answer *answer)
{
	answer->result = LOCK_FAILED;
	failure_set(&answer->failure, EXIT_CONFIG,
		"%s knows the lock as one of a quorum of %" PRId64
		" servers, which is not what the server URL says",
		session_peer(session), reply_integer(reply_at(reply, 1)));
}

void answer_read(
	const struct session *session, const struct reply *reply, struct lock_answer *answer)
{
	const char *word = reply_text(reply_at(reply, 0));

	strlcpy(answer->server, session->route.text, sizeof(answer->server));
	if (word && strcmp(word, "granted") == 0) {
		read_grant(session, reply, answer);
	} else if (word && strcmp(word, "busy") == 0) {
		read_busy(reply, answer);
	} else if (word && strcmp(word, "within") == 0) {
		read_within(session, reply, answer);
	} else if (word && strcmp(word, "deadlock") == 0) {
		answer->result = LOCK_FAILED;
		word = reply_text(reply_at(reply, 2));
		failure_set(&answer->failure, EXIT_DEADLOCK,
			"waiting would deadlock: the dlock around this one holds %s of it",
			word && strcmp(word, "dlock:shared") == 0 ? "a share" : "a permit");
	} else if (word && strcmp(word, "size") == 0) {
		read_size(session, reply, answer);
	} else if (word && strcmp(word, "already") == 0) {
		read_already(reply, answer);
	} else if (word && strcmp(word, "ended") == 0) {
		answer->result = LOCK_LOST;
	} else {
		fail_nonsense(session, answer);
	}
}
