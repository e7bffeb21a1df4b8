/* How a run ended: what the exit code, the closing line and the report are made from. */
#ifndef DLOCK_OUTCOME_H
#define DLOCK_OUTCOME_H

#include "failure.h"
#include "lease.h"

enum outcome_kind {
	OUTCOME_RAN,	   /* COMMAND ran to its end */
	OUTCOME_BUSY,	   /* not free, with -n */
	OUTCOME_TIMEOUT,   /* -w ran out */
	OUTCOME_CANCELLED, /* a signal while waiting: end_signal */
	OUTCOME_LOST,	   /* the lock was lost, COMMAND stopped */
	OUTCOME_KILLED,	   /* the keeper was killed */
	OUTCOME_FAILED,	   /* see failure */
};

struct outcome {
	enum outcome_kind kind;
	int command_status;	/* as from waitpid(2); RAN, LOST, KILLED, where command_ended */
	bool command_ended;
	int end_signal;		/* dlock must die of this signal itself; 0: none */
	struct failure failure; /* FAILED */
	struct lock_answer answer; /* BUSY, TIMEOUT: who holds it; RAN, LOST: the grant */
	nanos waited, held;
	int reclaimed;
	pid_t survivors[LEASE_SURVIVORS];
};

/* The exit code by EXIT STATUS; `conflict` is that of -E. */
int outcome_exit(const struct outcome *outcome, int conflict);

#endif
