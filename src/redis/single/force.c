/* Releasing a lock by force, whatever holds it. */
#include "redis/single/single.h"

#include <string.h>

#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/script/replies.h"
#include "redis/script/script.h"

static void report_holders(const struct reply *reply,
	void (*tell)(const struct lock_answer *held, void *context), void *context)
{
	struct lock_answer held;
	int64_t now_us = reply_within(reply_at(reply, 1), 0, REPLIES_US_MOST);
	const struct reply *holders = reply_at(reply, 3);

	for (size_t i = 0; i < reply_count(holders); i++) {
		struct owner_record record;

		memset(&held, 0, sizeof(held));
		held.result = LOCK_BUSY;
		held.free_in_ms = reply_within(reply_at(reply, 2), -1, REPLIES_MS_MOST);
		held.known = owner_record_read(&record, reply_text(reply_at(holders, i)));
		held.foreign = held.known ? NULL : REPLIES_FOREIGN;
		if (held.known) {
			held.holder = record.owner;
			held.held_ms = record.claimed ? (now_us - record.moment) / 1000 : 0;
			held.detached = record.detached;
		}
		tell(&held, context);
	}
}

/* No client had it, and none would have got it for a while. */
static void report_hold_off(const struct reply *reply,
	void (*tell)(const struct lock_answer *held, void *context), void *context)
{
	struct lock_answer held;

	memset(&held, 0, sizeof(held));
	held.result = LOCK_BUSY;
	held.free_in_ms = reply_within(reply_at(reply, 2), 0, REPLIES_MS_MOST);
	tell(&held, context);
}

/* False: it is no answer to this. */
static bool read_force(const struct reply *reply,
	void (*tell)(const struct lock_answer *held, void *context), void *context,
	struct lock_answer *answer, struct handed *handed)
{
	const char *word = reply_text(reply_at(reply, 0));
	bool forced = word && strcmp(word, "broken") == 0;
	bool off = word && strcmp(word, "off") == 0;

	if (!forced && !off && (!word || strcmp(word, "free") != 0))
		return false;
	answer->result = forced || off ? LOCK_RELEASED : LOCK_GONE;
	replies_read_handed(reply_at(reply, 4), handed);
	report_holders(reply, tell, context);
	if (off)
		report_hold_off(reply, tell, context);
	return true;
}

/* Repeated only if the server said that it did nothing: a second one would hit the owner that got
 * the lock by the first. */
void single_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer)
{
	struct single *single = (struct single *)lock;
	struct link *link = &single->link;
	struct reply *reply = NULL;
	struct call call;
	enum io_result io;

	call_begin(&call, &script_force, &single->keys, single->lock.token);
	call_add_number(&call, single->request.fence);
	do {
		io = link_send(link, &call, deadline, &answer->failure);
		if (io == IO_OK)
			io = link_receive(link, &call, &reply, deadline, &answer->failure);
	} while (io == IO_AGAIN && single_pause(deadline, &answer->result));
	answer->result = single_result(io, deadline);
	if (io != IO_OK)
		return;
	if (!read_force(reply, tell, context, answer, &single->handed)) {
		answer->result = LOCK_FAILED;
		error_reply_nonsense(&answer->failure, link_server_name(link));
	}
	reply_free(reply);
}
