/* How a run ended: what the exit code, the closing line and the report are made from. */
#pragma once

#include "base/failure.h"
#include "supervise/lease.h"

enum outcome_kind {
	OUTCOME_RAN,       /* COMMAND ran to its end */
	OUTCOME_ACQUIRED,  /* `acquire` got the lock */
	OUTCOME_HELD,      /* so did `hold` */
	OUTCOME_BUSY,      /* not free, with -n */
	OUTCOME_TIMEOUT,   /* -w ran out */
	OUTCOME_ALREADY,   /* --cooldown, --once: a success is on record */
	OUTCOME_SKIPPED,   /* --if-unreachable skip: failure says why */
	OUTCOME_LOST,      /* the lock was lost, COMMAND stopped */
	OUTCOME_MAX_RUN,   /* --max-run was up, COMMAND stopped */
	OUTCOME_CANCELLED, /* a signal while waiting: end_signal */
	OUTCOME_KILLED,    /* the keeper was killed */

	/* From here on: see failure. */
	OUTCOME_DEADLOCK,
	OUTCOME_UNREACHABLE,
	OUTCOME_REFUSED,
	OUTCOME_PROTOCOL,
	OUTCOME_CONFIG,
	OUTCOME_USAGE,
	OUTCOME_NOT_FOUND, /* or not to be executed */
	OUTCOME_INTERNAL,  /* or the system's */
};

struct outcome {
	enum outcome_kind kind;
	int command_status; /* as from waitpid(2); RAN, LOST, MAX_RUN, KILLED, if command_ended */
	bool command_ended;
	int end_signal;         /* dlock must die of this signal itself; 0: none */
	struct failure failure; /* code EXIT_DONE: none */
	nanos waited, held;
	nanos answered_at; /* BUSY, TIMEOUT: when the server said so */
	int reclaimed;
	pid_t survivors[LEASE_SURVIVORS];
	struct lock_answer answer; /* BUSY, TIMEOUT: its holder; ALREADY; else the grant, if any.
				    * Large, so it comes last */
};

/* Makes it that of a failure: the kind follows from its code. */
void outcome_fail(struct outcome *outcome, const struct failure *failure);

/* Makes it that of asking which was not granted: what asking_run said, and whether dlock was to
 * wait. */
void outcome_deny(struct outcome *outcome, enum lock_result result, bool waits,
	const struct lock_answer *answer, const struct failure *failure);

/* The request is not taken back yet, though that goes on to be tried: says so, with how long
 * a lock would stay that was granted; in the outcome's failure if it has one. */
void outcome_say_left(struct outcome *outcome, nanos ttl);

/* Takes over what the lease says of a run, which began at `started`; not the kind. */
void outcome_read_lease(struct outcome *outcome, const struct lease *lease, nanos started);

/* The exit code by EXIT STATUS; `conflict` is that of -E. */
int outcome_exit(const struct outcome *outcome, int conflict);

/* Its name in the report. */
const char *outcome_word(const struct outcome *outcome);

/* COMMAND's own exit code, 128+N for a signal; -1: it has none. */
int outcome_command_exit(const struct outcome *outcome);
