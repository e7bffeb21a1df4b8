/* --wait-replicas: WAIT goes with the request to acquire, in one write, so it costs no round trip
 * but the replicas' own. */
#include "redis/single/single.h"

#include "base/number.h"
#include "redis/script/script.h"

#define GIVE_BACK (500 * NANOS_PER_MS) /* limit */

/* The replicas' share of what time there is: so the answer comes before that is over. */
static int64_t share_ms(const struct single *single, struct deadline deadline)
{
	int64_t left = (deadline.until - clock_now()) / NANOS_PER_MS;

	left -= left / 4;
	if (left > single->request.replicas_ms)
		left = single->request.replicas_ms;
	return left < 1 ? 1 : left;
}

void wait_replicas_ask(const struct single *single, struct call *call, struct deadline deadline)
{
	if (single->request.replicas > 0)
		call_wait(call, single->request.replicas, share_ms(single, deadline));
}

/* What too few replicas have is released at once, with time of its own. */
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

void wait_replicas_handle(
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
		if (io == IO_FAILED) /* it has no replicas to ask, or does not let us */
			answer->failure = failure;
	}
}
