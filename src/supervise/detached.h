/* Taking a lock that no process stays with (`acquire`): the one process that there is asks. */
#pragma once

struct task;
struct outcome;

/* From the first request to the moment at which the caller has learned of the lock, or it was
 * released. Nothing is left running, unless a request could not be taken back: then a process goes
 * on with that for a while. The main thread; its signals are blocked (caller_state.h). */
void detached_acquire(const struct task *run, struct outcome *outcome);
