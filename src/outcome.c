#include "outcome.h"

#include "ending.h"

int outcome_exit(const struct outcome *outcome, int conflict)
{
	switch (outcome->kind) {
	case OUTCOME_RAN:
		return ending_code(outcome->command_status);
	case OUTCOME_BUSY:
	case OUTCOME_TIMEOUT:
		return conflict;
	case OUTCOME_CANCELLED:
		return EXIT_SIGNAL_BASE + outcome->end_signal;
	case OUTCOME_LOST:
		return EXIT_LOST;
	case OUTCOME_KILLED:
		return EXIT_INTERNAL;
	case OUTCOME_FAILED:
		return (int)outcome->failure.code;
	}
	return EXIT_INTERNAL;
}
