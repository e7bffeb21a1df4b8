/*
 * A program run for itself, without a lock to prove: the caller sees one job. Signals go on to it,
 * it stops and continues together with dlock, and its end is ours.
 */
#pragma once

#include <stdbool.h>

struct failure;
struct caller_state;
struct program;

struct foreground_job_end {
	int status;     /* as from waitpid(2) */
	int end_signal; /* INT or QUIT from the terminal ended it, so dlock must die of it; 0: none
			 */
};

/* Starts it and waits for its end. It shares our process group if there is a controlling terminal,
 * else it gets its own, so that a signal to ours reaches it once. False with EXIT_SYSTEM or
 * EXIT_NOT_EXECUTABLE: it was not started. */
bool foreground_job_run(const struct program *program, const struct caller_state *caller_state,
	struct foreground_job_end *end, struct failure *failure);
