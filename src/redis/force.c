/* Breaking a lock, whoever has it. */
#include "redis/single.h"

#include <bsd/string.h>
#include <string.h>

#include "redis/connection.h"
#include "redis/fault.h"

/* Each of those who held it, from his record. */
static void tell_holders(const struct reply *reply,
	void (*tell)(const struct lock_answer *held, void *context), void *context)
{
	static struct lock_answer held; /* large */
	int64_t now_us = reply_within(reply_at(reply, 1), 0, SINGLE_US_MOST);
	const struct reply *holders = reply_at(reply, 3);

	for (size_t i = 0; i < reply_count(holders); i++) {
		struct record record;

		single_clear(&held);
		held.result = LOCK_BUSY;
		held.free_in_ms = reply_within(reply_at(reply, 2), -1, SINGLE_MS_MOST);
		held.known = record_read(&record, reply_text(reply_at(holders, i)));
		held.foreign = !held.known;
		if (held.known) {
			held.holder = record.party;
			held.held_ms = record.claimed ? (now_us - record.moment) / 1000 : 0;
		}
		tell(&held, context);
	}
}

/* False: it is no answer to this. */
static bool read_force(const struct reply *reply,
	void (*tell)(const struct lock_answer *held, void *context), void *context,
	struct lock_answer *answer)
{
	const char *word = reply_text(reply_at(reply, 0));
	bool broken = word && strcmp(word, "broken") == 0;

	if (!broken && (!word || strcmp(word, "free") != 0))
		return false;
	answer->result = broken ? LOCK_RELEASED : LOCK_GONE;
	single_read_handed(reply_at(reply, 4), answer);
	tell_holders(reply, tell, context);
	return true;
}

/* Repeated only where the server said that it did nothing: a second one would hit whoever got the
 * lock by the first. */
void single_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct patience patience, struct lock_answer *answer)
{
	struct single *single = (struct single *)lock;
	struct session *session = &single->session;
	struct reply *reply = NULL;
	struct call call;
	enum wire wire;

	single_clear(answer);
	call_begin(&call, &script_force, &single->keys, single->token);
	do {
		wire = session_send(session, &call, patience, &answer->failure);
		if (wire == WIRE_OK)
			wire = session_receive(session, &call, &reply, patience, &answer->failure);
	} while (wire == WIRE_AGAIN && single_pause(patience, &answer->result));
	answer->result = single_result(wire, patience);
	if (wire != WIRE_OK)
		return;
	if (!read_force(reply, tell, context, answer)) {
		answer->result = LOCK_FAILED;
		fault_nonsense(&answer->failure, session_peer(session));
	}
	reply_free(reply);
}
