/* Releasing a lock by force, whatever holds it. */
#include "redis/single/single.h"

#include <string.h>

#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/script/replies.h"
#include "redis/script/script.h"

/* who: a holder's record. NULL: no client had it, and none would have got it for a while. */
static void report(
	const struct reply *reply, const char *who, lock_holder_taker *tell, void *context)
{
	int64_t now_us = reply_within(reply_at(reply, 1), 0, REPLIES_US_MOST);
	struct owner_record record;
	struct lock_answer held;

	memset(&held, 0, sizeof(held));
	held.result = LOCK_BUSY;
	held.free_in_ms = reply_within(reply_at(reply, 2), -1, REPLIES_MS_MOST);
	held.known = owner_record_read(&record, who);
	held.foreign = who && !held.known ? REPLIES_FOREIGN : NULL;
	if (held.known) {
		held.holder = record.owner;
		held.held_ms = record.claimed ? (now_us - record.moment) / 1000 : 0;
		held.detached = record.detached;
	}
	tell(&held, context);
}

/* False: it is no answer to this. */
static bool read_force(const struct reply *reply, lock_holder_taker *tell, void *context,
	struct lock_answer *answer, struct handed *handed)
{
	bool forced = reply_says(reply, "broken"), off = reply_says(reply, "off");
	const struct reply *holders = reply_at(reply, 3);

	if (!forced && !off && !reply_says(reply, "free"))
		return false;
	answer->result = forced || off ? LOCK_RELEASED : LOCK_GONE;
	replies_read_handed(reply_at(reply, 4), handed);
	for (size_t i = 0; i < reply_count(holders); i++) {
		const char *who = reply_text(reply_at(holders, i));

		report(reply, who ? who : "", tell, context);
	}
	if (off)
		report(reply, NULL, tell, context);
	return true;
}

/* Repeated only if the server said that it did nothing: a second one would hit the owner that got
 * the lock by the first. */
void single_force(struct lock *lock, lock_holder_taker *tell, void *context,
	struct deadline deadline, struct lock_answer *answer)
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
	} while (io == IO_AGAIN && link_pause(deadline, &io));
	answer->result = single_result(io, deadline);
	if (io != IO_OK)
		return;
	if (!read_force(reply, tell, context, answer, &single->handed)) {
		answer->result = LOCK_FAILED;
		error_reply_nonsense(&answer->failure, link_server_name(link));
	}
	reply_free(reply);
}
