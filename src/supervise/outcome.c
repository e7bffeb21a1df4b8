#include "supervise/outcome.h"

#include <stddef.h>
#include <string.h>

#include "process/exit_status.h"

/* Exit codes that are not the kind's own. */
enum { OF_COMMAND = -1, OF_CONFLICT = -2, OF_SIGNAL = -3, OF_FAILURE = -4 };

static const struct {
	const char *word;
	int exit;
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
	[OUTCOME_DEADLOCK] = {"deadlock", OF_FAILURE},
	[OUTCOME_UNREACHABLE] = {"unreachable", OF_FAILURE},
	[OUTCOME_REFUSED] = {"refused", OF_FAILURE},
	[OUTCOME_PROTOCOL] = {"protocol", OF_FAILURE},
	[OUTCOME_CONFIG] = {"config", OF_FAILURE},
	[OUTCOME_USAGE] = {"usage", OF_FAILURE},
	[OUTCOME_NOT_FOUND] = {"not-found", OF_FAILURE},
	[OUTCOME_INTERNAL] = {"internal", OF_FAILURE},
};

void outcome_fail(struct outcome *outcome, const struct failure *failure)
{
	static const struct {
		enum exit_code code;
		enum outcome_kind kind;
	} codes[] = {
		{EXIT_DEADLOCK, OUTCOME_DEADLOCK},
		{EXIT_UNREACHABLE, OUTCOME_UNREACHABLE},
		{EXIT_REFUSED, OUTCOME_REFUSED},
		{EXIT_PROTOCOL, OUTCOME_PROTOCOL},
		{EXIT_CONFIG, OUTCOME_CONFIG},
		{EXIT_USAGE, OUTCOME_USAGE},
		{EXIT_NOT_FOUND, OUTCOME_NOT_FOUND},
		{EXIT_NOT_EXECUTABLE, OUTCOME_NOT_FOUND},
	};

	outcome->failure = *failure;
	outcome->kind = OUTCOME_INTERNAL;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		if (codes[i].code == failure->code)
			outcome->kind = codes[i].kind;
	}
}

void outcome_read_lease(struct outcome *outcome, const struct lease *lease, nanos started)
{
	outcome->answer = lease->answer;
	outcome->waited = lease->granted_at - started;
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

	switch (exit) {
	case OF_COMMAND:
		return outcome_command_exit(outcome);
	case OF_CONFLICT:
		return conflict;
	case OF_SIGNAL:
		return EXIT_SIGNAL_BASE + outcome->end_signal;
	case OF_FAILURE:
		return (int)outcome->failure.code;
	default:
		return exit;
	}
}

const char *outcome_word(const struct outcome *outcome)
{
	return kinds[outcome->kind].word;
}
