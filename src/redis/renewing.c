/* Extending the lock, or setting it again. */
#include "redis/single.h"

#include <string.h>

#include "redis/connection.h"
#include "redis/fault.h"

static enum lock_result read_renewal(
	const struct single *single, const struct reply *reply, struct lock_answer *answer)
{
	static const struct {
		const char *word;
		enum lock_result result;
	} words[] = {{"extended", LOCK_GRANTED}, {"again", LOCK_SET_AGAIN}, {"denied", LOCK_LOST}};
	const char *word = reply_text(reply_at(reply, 0));

	if (single_by_token(single) && single_read_denial(reply, answer))
		return LOCK_LOST;
	for (size_t i = 0; word && i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i].word) == 0)
			return words[i].result;
	}
	fault_nonsense(&answer->failure, session_peer(&single->session));
	return LOCK_FAILED;
}

/* who: room for the record that goes with it. */
static void begin_renewal(struct single *single, struct call *call, char who[static RECORD_SIZE])
{
	if (single_by_token(single)) {
		call_begin(call, &script_detached_renew, &single->keys, single->token);
		call_add_number(call, single->request.ttl_ms);
		return;
	}
	record_write(who, single->mode, single->since_us, single->text);
	call_begin(call, &script_renew, &single->keys, single->token);
	call_add(call, single->mode);
	call_add_number(call, single_ttl_ms(single));
	call_add_number(call, (int64_t)single->fence);
	call_add_number(call, (int64_t)single->generation);
	call_add(call, who);
}

/* While the lock's keys are on the move, the lock itself is on one of the two nodes. */
static enum wire extend(struct single *single, struct lock_answer *answer, struct patience patience)
{
	const char *word;
	struct reply *reply;
	struct call call;
	enum wire wire;

	call_begin_alone(&call, &script_extend, &single->keys, single->token);
	call_add_number(&call, single_ttl_ms(single));
	wire = session_call(&single->session, &call, &reply, patience, &answer->failure);
	if (wire != WIRE_OK)
		return wire;
	word = reply_text(reply_at(reply, 0));
	if (!word || strcmp(word, "extended") != 0)
		wire = WIRE_AGAIN;
	reply_free(reply);
	return wire;
}

void single_renew(struct lock *lock, struct patience patience, struct lock_answer *answer)
{
	struct single *single = (struct single *)lock;
	char who[RECORD_SIZE];
	struct reply *reply;
	struct call call;
	enum wire wire;

	single_clear(answer);
	begin_renewal(single, &call, who);
	wire = session_call(&single->session, &call, &reply, patience, &answer->failure);
	if (wire == WIRE_OK) {
		answer->result = read_renewal(single, reply, answer);
		reply_free(reply);
	} else {
		if (wire == WIRE_AGAIN && single->session.moving &&
			single->request.mode == LOCK_EXCLUSIVE && !single_by_token(single))
			wire = extend(single, answer, patience);
		answer->result = single_result(wire, patience);
		if (wire != WIRE_OK)
			return;
	}
	answer->asked_at = single->session.sent_at;
	answer->fence = single->fence;
	answer->generation = single->generation;
	answer->since_us = single->since_us;
	if (answer->result == LOCK_LOST)
		single->loss_told = true;
}
