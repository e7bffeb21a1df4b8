#include "supervise/outcome.h"

#include <string.h>

#include "base/duration.h"
#include "base/message.h"
#include "process/exit_status.h"

/* Exit codes that are not the kind's own. */
enum { OF_COMMAND = -1, OF_CONFLICT = -2, OF_SIGNAL = -3 };

static const struct {
	const char *word;
	int exit; /* of a failure: the code that makes it this kind; INTERNAL has all others, too */
} kinds[] = {
	[OUTCOME_RAN] = {"ran", OF_COMMAND},
	[OUTCOME_ACQUIRED] = {"acquired", EXIT_DONE},
	[OUTCOME_HELD] = {"held", EXIT_DONE},
	[OUTCOME_BUSY] = {"busy", OF_CONFLICT},
	[OUTCOME_TIMEOUT] = {"timeout", OF_CONFLICT},
	[OUTCOME_ALREADY] = {"already", EXIT_DONE},
	[OUTCOME_SKIPPED] = {"skipped", EXIT_DONE},
	[OUTCOME_LOST] = {"lost", EXIT_LOST},
	[OUTCOME_MAX_RUN] = {"max-run", EXIT_MAX_RUN},
	[OUTCOME_CANCELLED] = {"cancelled", OF_SIGNAL},
	[OUTCOME_KILLED] = {"killed", EXIT_INTERNAL},
	[OUTCOME_DEADLOCK] = {"deadlock", EXIT_DEADLOCK},
	[OUTCOME_UNREACHABLE] = {"unreachable", EXIT_UNREACHABLE},
	[OUTCOME_REFUSED] = {"refused", EXIT_REFUSED},
	[OUTCOME_PROTOCOL] = {"protocol", EXIT_PROTOCOL},
	[OUTCOME_CONFIG] = {"config", EXIT_CONFIG},
	[OUTCOME_USAGE] = {"usage", EXIT_USAGE},
	[OUTCOME_NOT_FOUND] = {"not-found", EXIT_NOT_FOUND},
	[OUTCOME_INTERNAL] = {"internal", EXIT_INTERNAL},
};

void outcome_fail(struct outcome *outcome, const struct failure *failure)
{
	int code = failure->code == EXIT_NOT_EXECUTABLE ? EXIT_NOT_FOUND : (int)failure->code;

	outcome->failure = *failure;
	outcome->kind = OUTCOME_DEADLOCK;
	while (outcome->kind < OUTCOME_INTERNAL && kinds[outcome->kind].exit != code)
		outcome->kind++;
}

void outcome_deny(struct outcome *outcome, enum lock_result result, bool waits,
	const struct lock_answer *answer, const struct failure *failure)
{
	outcome->answer = *answer;
	switch (result) {
	case LOCK_BUSY:
		outcome->kind = waits ? OUTCOME_TIMEOUT : OUTCOME_BUSY;
		break;
	case LOCK_ALREADY:
		outcome->kind = OUTCOME_ALREADY;
		break;
	default:
		outcome_fail(outcome, failure);
		break;
	}
}

void outcome_say_left(struct outcome *outcome, nanos ttl)
{
	struct failure *failure = &outcome->failure;
	char span[DURATION_TEXT];

	duration_format(ttl, span);
	if (failure->code != EXIT_DONE)
		failure_set(failure, failure->code,
			"%s; if the lock was granted all the same, it frees itself within %s",
			failure->text, span);
	else
		message_say(MESSAGE_WARNING,
			"what was asked for could not be taken back yet; if the lock was granted, "
			"it frees itself within %s",
			span);
}

void outcome_read_lease(struct outcome *outcome, const struct lease *lease, nanos started)
{
	outcome->answer = lease->answer;
	outcome->waited = (lease->granted_at != 0 ? lease->granted_at : clock_now()) - started;
	outcome->command_ended = atomic_load(&lease->command_over);
	outcome->command_status = lease->command_status;
	outcome->held = lease->held;
	outcome->reclaimed = atomic_load(&lease->reclaimed);
	memcpy(outcome->survivors, lease->survivors, sizeof(outcome->survivors));
}

int outcome_command_exit(const struct outcome *outcome)
{
	return outcome->command_ended ? exit_status_code(outcome->command_status) : -1;
}

int outcome_exit(const struct outcome *outcome, int conflict)
{
	int exit = kinds[outcome->kind].exit;

	if (outcome->kind >= OUTCOME_DEADLOCK)
		return (int)outcome->failure.code;
	switch (exit) {
	case OF_COMMAND:
		return outcome_command_exit(outcome);
	case OF_CONFLICT:
		return conflict;
	case OF_SIGNAL:
		return EXIT_SIGNAL_BASE + outcome->end_signal;
	default:
		return exit;
	}
}

const char *outcome_word(const struct outcome *outcome)
{
	return kinds[outcome->kind].word;
}
