#include "supervise/release_terms.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/message.h"
#include "process/exit_status.h"
#include "supervise/task.h"

/* The status as an exit code of dlock's; -1: there is none. */
static int exit_of_run(const struct lease *lease, int status)
{
	if (status >= 0)
		return exit_status_code(status);
	switch (lease->stop) {
	case STOP_LOST:
	case STOP_UNPROVED:
		return EXIT_LOST;
	case STOP_MAX_RUN:
		return EXIT_MAX_RUN;
	default: /* a run that ended well, but was not told so, is neither */
		status = atomic_load(&lease->command_over) ? exit_status_code(lease->command_status)
							   : -1;
		return status == 0 ? -1 : status;
	}
}

struct release_terms release_terms_make(const struct lease *lease, int status)
{
	int exit = exit_of_run(lease, status);
	nanos left = lease->terms.at_least - (clock_now() - lease->granted_at);

	return (struct release_terms){
		.keep_ms = left > 0 ? (left - 1) / NANOS_PER_MS + 1 : 0,
		.success = status == 0,
		.ran = exit >= 0,
		.exit = exit,
		.valid_until = atomic_load(&lease->lost) ? 0 : lease_validity(lease),
	};
}

nanos release_terms_span(const struct task *task)
{
	return LEASE_RELEASE_LIMIT * (nanos)(1 + task->also_count);
}

struct deadline release_terms_limit(nanos until)
{
	return (struct deadline){.until = until, .cancel_fd = -1, .least = LEASE_RELEASE_LEAST};
}

static void report_failure(const struct lease *lease, const struct lock_answer *answer)
{
	nanos left = lease->terms.at_least - (clock_now() - lease->granted_at);
	nanos longest = left > lease->terms.ttl ? left : lease->terms.ttl;

	if (lease->stop == STOP_UNPROVED)
		return; /* the loss was told already */
	if (longest == NANOS_NEVER)
		longest = 0; /* the lock ends with this process */
	message_say(MESSAGE_WARNING,
		"could not release the lock (%s); it frees itself within %" PRId64 " s",
		answer->result == LOCK_FAILED ? answer->failure.text : "no answer",
		(longest + NANOS_PER_SEC - 1) / NANOS_PER_SEC);
}

void release_terms_report(struct lease *lease, const struct lock_answer *answer)
{
	switch (answer->result) {
	case LOCK_RELEASED:
		if (answer->flawed)
			message_say(MESSAGE_WARNING, "%s", answer->failure.text);
		break;
	case LOCK_GONE:
		message_say(MESSAGE_INFO,
			"the lock was no longer there when it was released; nobody else had it");
		break;
	case LOCK_LOST:
		if (!atomic_exchange(&lease->lost, true))
			message_say(MESSAGE_ERROR, "the lock was lost before it was released: "
						   "somebody else took it, or it was ended");
		break;
	default:
		report_failure(lease, answer);
		break;
	}
}
