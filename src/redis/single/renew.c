/* Extending the lock, or setting it again. */
#include "redis/single/single.h"

#include <stdio.h>
#include <string.h>

#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/script/replies.h"
#include "redis/script/script.h"

static enum lock_result read_renewal(
	const struct single *single, const struct reply *reply, struct lock_answer *answer)
{
	if (lock_is_by_token(&single->request) && replies_read_denial(reply, answer))
		return LOCK_LOST;
	if (reply_says(reply, "extended"))
		return LOCK_GRANTED;
	if (reply_says(reply, "again"))
		return LOCK_SET_AGAIN;
	if (reply_says(reply, "denied"))
		return LOCK_LOST;
	error_reply_nonsense(&answer->failure, link_server_name(&single->link));
	return LOCK_FAILED;
}

static void begin_renewal(
	struct single *single, struct call *call, char who[static OWNER_RECORD_SIZE])
{
	if (lock_is_by_token(&single->request)) {
		call_begin(call, &script_detached_renew, &single->keys, single->lock.token);
		call_add_number(call, single->request.ttl_ms);
		return;
	}
	owner_record_text(&single->request, single->text);
	owner_record_write(who, single->mode, single->since_us, single->text);
	if (single->has_slot)
		snprintf(who + strlen(who), OWNER_RECORD_SIZE - strlen(who), "\tslot=%d",
			single->slot);
	call_begin(call, &script_renew, &single->keys, single->lock.token);
	call_add(call, single->mode);
	call_add_number(call, lock_ttl_ms(&single->request, single->granted_at));
	call_add_number(call, (int64_t)single->fence);
	call_add_number(call, (int64_t)single->generation);
	call_add(call, who);
	call_add_number(call, (int64_t)single->size);
	call_add_number(call, 1);
}

/* While the lock's keys are on the move, the lock itself is on one of the two nodes. */
static enum io_result extend(
	struct single *single, struct lock_answer *answer, struct deadline deadline)
{
	struct reply *reply;
	struct call call;
	enum io_result io;

	call_begin(&call, &script_extend, &single->keys, single->lock.token);
	call_add_number(&call, lock_ttl_ms(&single->request, single->granted_at));
	io = link_call(&single->link, &call, &reply, deadline, &answer->failure);
	if (io != IO_OK)
		return io;
	if (!reply_says(reply, "extended"))
		io = IO_AGAIN;
	reply_free(reply);
	return io;
}

void single_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct single *single = (struct single *)lock;
	char who[OWNER_RECORD_SIZE];
	struct reply *reply;
	struct call call;
	enum io_result io;

	single_borrow(single);
	begin_renewal(single, &call, who);
	io = link_call(&single->link, &call, &reply, deadline, &answer->failure);
	if (io == IO_OK) {
		answer->result = read_renewal(single, reply, answer);
		reply_free(reply);
	} else {
		if (io == IO_AGAIN && single->link.moving &&
			single->request.mode == LOCK_EXCLUSIVE &&
			!lock_is_by_token(&single->request))
			io = extend(single, answer, deadline);
		answer->result = single_result(io, deadline);
	}
	if (io != IO_OK)
		return;
	answer->asked_at = single->link.sent_at;
	answer->fence = single->fence;
	if (answer->result == LOCK_LOST)
		single->loss_told = true;
}
