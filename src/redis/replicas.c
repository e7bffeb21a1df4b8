/* --wait-replicas: WAIT goes with the request to acquire, in one write, so it costs no round trip
 * but the replicas' own. */
#include "redis/single.h"

#include "decimal.h"
#include "redis/connection.h"

#define GIVE_BACK (500 * NANOS_PER_MS) /* limit */

/* The replicas' share of what time there is: so the answer comes before that is over. */
static int64_t share_ms(const struct single *single, struct patience patience)
{
	int64_t left = (patience.until - clock_now()) / NANOS_PER_MS;

	left -= left / 4;
	if (left > single->request.replicas_ms)
		left = single->request.replicas_ms;
	return left < 1 ? 1 : left;
}

void replicas_ask(const struct single *single, struct call *call, struct patience patience)
{
	if (single->request.replicas > 0)
		call_wait(call, single->request.replicas, share_ms(single, patience));
}

/* What too few replicas have is given back at once, with time of its own. */
static void give_back(
	struct single *single, struct lock_answer *answer, enum wire wire, const char *had)
{
	bool gone;

	single_release(&single->lock, NULL, (struct patience){clock_now() + GIVE_BACK, -1}, answer);
	gone = answer->result == LOCK_RELEASED || answer->result == LOCK_GONE;
	answer->result = wire == WIRE_CANCELLED ? LOCK_CANCELLED : LOCK_UNREPLICATED;
	failure_set(&answer->failure, EXIT_UNREACHABLE,
		"%s of the %d replicas of %s that --wait-replicas asks for had the lock in time; "
		"it %s given back",
		had, single->request.replicas, session_peer(&single->session),
		gone ? "was" : "could not be");
}

void replicas_heed(struct single *single, struct patience patience, struct lock_answer *answer)
{
	struct session *session = &single->session;
	struct failure failure;
	char had[24] = "too few"; /* unless the server says how many */
	int64_t count = 0;
	enum wire wire;

	if (single->request.replicas == 0)
		return;
	/* Where nobody will use the connection again the reply is not worth waiting for. */
	if (answer->result != LOCK_GRANTED &&
		!(answer->result == LOCK_BUSY && single->request.queues)) {
		session_drop(session);
		return;
	}
	wire = session_confirm(session, &count, patience, &failure);
	if (answer->result == LOCK_BUSY && wire != WIRE_OK) {
		answer->result = single_result(wire, patience);
		answer->failure = failure;
	} else if (answer->result == LOCK_GRANTED && count < single->request.replicas) {
		if (wire == WIRE_OK)
			decimal_write(had, count);
		give_back(single, answer, wire, had);
		if (wire == WIRE_FAILED) /* it has no replicas to ask, or does not let us */
			answer->failure = failure;
	}
}
