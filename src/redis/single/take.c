/* Asking for the lock. --wait-replicas: WAIT goes with the request, in one write, so it costs no
 * round trip but the replicas' own. */
#include "redis/single/single.h"

#include "base/number.h"
#include "lock/token.h"
#include "redis/link/connection.h"
#include "redis/script/replies.h"
#include "redis/script/script.h"

#define PROMISE_MS      5000                    /* how long one lives that is not confirmed */
#define GIVE_BACK       (500 * NANOS_PER_MS)    /* limit, for what too few replicas have */
#define US_PER_PRIORITY (60 * INT64_C(1000000)) /* a point counts as a minute of waiting */

/* The replicas' share of what time there is: so the answer comes before that is over. */
static int64_t share_ms(const struct single *single, struct deadline deadline)
{
	int64_t left = (deadline.until - clock_now()) / NANOS_PER_MS;

	left -= left / 4;
	if (left > single->request.replicas_ms)
		left = single->request.replicas_ms;
	return left < 1 ? 1 : left;
}

static void begin_acquire(struct single *single, struct call *call, struct deadline deadline)
{
	const struct lock_request *request = &single->request;

	call_begin(call, &script_acquire, &single->keys, single->lock.token);
	call_add(call, single->mode);
	call_add_number(call, lock_ttl_ms(&single->request, single->granted_at));
	call_add_number(call, request->queues ? WAIT_LEASE_MS : 0);
	call_add_number(call, (int64_t)single->ticket);
	call_add_number(call, request->priority * US_PER_PRIORITY);
	call_add_number(call, wait_hold_off(single));
	call_add_number(call, (int64_t)single->waiting.seen);
	call_add(call, single->text);
	call_add_number(call, lock_window_ms(&single->lock, request));
	call_add(call, single->once);
	call_add(call, request->queues && request->held ? request->held : "");
	if (request->settle_ms > 0 || single->size > 0)
		call_add_number(
			call, request->settle_asked ? request->settle_ms : -request->settle_ms);
	if (single->size > 0) {
		call_add_number(call, (int64_t)single->size);
		call_add(call, single->waiter);
		call_add_number(call, number_least(request->ttl_ms, PROMISE_MS));
	}
	call->replicas = request->replicas;
	call->replicas_ms = share_ms(single, deadline);
}

/* Everything but the state of the connection. */
static void learn(struct single *single, const struct lock_answer *answer)
{
	switch (answer->result) {
	case LOCK_GRANTED:
		single->fence = answer->fence;
		single->generation = replies_own(answer)->generation;
		single->has_slot = answer->has_slot;
		single->slot = answer->slot;
		single->since_us = replies_own(answer)->since_us;
		single->granted_at = answer->granted_at;
		break;
	case LOCK_ALREADY:
		single->lock.asked = false;
		break;
	case LOCK_BUSY:
		single->ticket = replies_own(answer)->ticket;
		single->lock.asked = single->request.queues;
		wait_adopt_answer(single, answer);
		break;
	case LOCK_LOST:
		single->spent = true;
		break;
	default:
		break;
	}
}

/* A lock that too few replicas have is released at once, with time of its own. */
static void give_back(
	struct single *single, struct lock_answer *answer, enum io_result io, const char *had)
{
	bool gone;

	single_release(&single->lock, NULL,
		(struct deadline){.until = clock_now() + GIVE_BACK, .cancel_fd = -1}, answer);
	gone = answer->result == LOCK_RELEASED || answer->result == LOCK_GONE;
	answer->result = io == IO_CANCELLED ? LOCK_CANCELLED : LOCK_UNREPLICATED;
	failure_set(&answer->failure, EXIT_UNREACHABLE,
		"%s of the %d replicas of %s that --wait-replicas asks for had the lock in time; "
		"it %s released",
		had, single->request.replicas, link_server_name(&single->link),
		gone ? "was" : "could not be");
}

/* After the answer. A grant that too few replicas have is released: LOCK_UNREPLICATED. */
static void wait_for_replicas(
	struct single *single, struct deadline deadline, struct lock_answer *answer)
{
	struct link *link = &single->link;
	struct failure failure;
	char had[24] = "too few"; /* unless the server says how many */
	int64_t count = 0;
	enum io_result io;

	if (single->request.replicas == 0)
		return;
	/* If no request will use the connection again, the reply is not worth waiting for. */
	if (answer->result != LOCK_GRANTED &&
		!(answer->result == LOCK_BUSY && single->request.queues)) {
		link_drop(link);
		return;
	}
	io = link_confirm(link, &count, deadline, &failure);
	if (answer->result == LOCK_BUSY && io != IO_OK) {
		answer->result = single_result(io, deadline);
		answer->failure = failure;
	} else if (answer->result == LOCK_GRANTED && count < single->request.replicas) {
		if (io == IO_OK)
			number_write(had, count);
		give_back(single, answer, io, had);
		if (io == IO_FAILED) /* the server has no replicas to ask, or does not let us */
			answer->failure = failure;
	}
}

static enum io_result send_and_receive(struct single *single, struct call *call,
	struct deadline limit, struct reply **reply, struct lock_answer *answer)
{
	struct link *link = &single->link;
	enum io_result io = link_send(link, call, limit, &answer->failure);
	bool passes;

	if (io != IO_OK)
		return io;
	single->lock.asked = true;
	io = link_receive(link, call, reply, limit, &answer->failure);
	passes = io == IO_AGAIN;
	while (io == IO_AGAIN && link_pause(limit, &io)) {
		struct failure before = answer->failure;

		io = link_send(link, call, limit, &answer->failure);
		if (io == IO_OK)
			io = link_receive(link, call, reply, limit, &answer->failure);
		/* A try that is cut off says less than the one before. */
		if (io == IO_TIMEOUT)
			answer->failure = before;
	}
	answer->failure.passes = passes && answer->failure.code == EXIT_UNREACHABLE;
	return io;
}

void single_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct single *single = (struct single *)lock;
	struct deadline limit =
		deadline_within(deadline, SINGLE_TRY + single->request.replicas_ms * NANOS_PER_MS);
	struct reply *reply = NULL;
	struct call call;
	enum io_result io;

	answer->result = LOCK_FAILED;
	if (single->spent)
		token_begin(&single->request, lock->token);
	if (single->spent && !single_name_keys(single, &answer->failure))
		return;
	wait_stop(single);
	single_borrow(single);
	replies_read_handed(NULL, &single->handed);
	begin_acquire(single, &call, limit);
	io = send_and_receive(single, &call, limit, &reply, answer);
	if (io == IO_OK) {
		replies_read_take(&single->link, reply, answer, &single->handed);
		learn(single, answer);
		reply_free(reply);
		wait_for_replicas(single, limit, answer);
	} else {
		answer->result = single_result(io, deadline);
	}
	if (answer->result == LOCK_FAILED)
		link_drop(&single->link); /* closed by the server, perhaps, as it has no room */
}

void single_take_over(struct lock *lock, const struct lock_answer *granted)
{
	struct single *single = (struct single *)lock;
	struct failure unheard;

	single_name_keys(single, &unheard);
	if (granted)
		learn(single, granted);
	lock->asked = true;
}
