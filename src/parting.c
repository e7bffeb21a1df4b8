#include "parting.h"

#include <inttypes.h>

#include "message.h"

struct lock_parting parting_terms(
	const struct lease *lease, const struct lease_terms *terms, int status)
{
	nanos left = terms->at_least - (clock_now() - lease->granted_at);

	return (struct lock_parting){
		.keep_ms = left > 0 ? (left - 1) / NANOS_PER_MS + 1 : 0,
		.success = status == 0,
		.valid_until = atomic_load(&lease->lost) ? 0 : atomic_load(&lease->valid_until),
	};
}

static void note_loss(struct lease *lease)
{
	if (!atomic_exchange(&lease->lost, true))
		message_say(MESSAGE_ERROR, "the lock was lost before it was given back: "
					   "somebody else took it, or it was ended");
}

static void note_failure(
	struct lease *lease, const struct lease_terms *terms, const struct lock_answer *answer)
{
	nanos left = terms->at_least - (clock_now() - lease->granted_at);
	nanos longest = left > terms->ttl ? left : terms->ttl;

	if (lease->stop == STOP_UNPROVED)
		return; /* that was said already */
	lease->release_failed = true;
	message_say(MESSAGE_WARNING,
		"could not give the lock back (%s); it frees itself within %" PRId64 " s",
		answer->result == LOCK_FAILED ? answer->failure.text : "no answer",
		(longest + NANOS_PER_SEC - 1) / NANOS_PER_SEC);
}

void parting_note(
	struct lease *lease, const struct lease_terms *terms, const struct lock_answer *answer)
{
	switch (answer->result) {
	case LOCK_RELEASED:
		if (answer->flawed)
			message_say(MESSAGE_WARNING, "%s", answer->failure.text);
		break;
	case LOCK_GONE:
		message_say(MESSAGE_INFO,
			"the lock was no longer there when it was given back; nobody else had it");
		break;
	case LOCK_LOST:
		note_loss(lease);
		break;
	default:
		note_failure(lease, terms, answer);
		break;
	}
}
