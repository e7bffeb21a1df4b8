/*
 * For how long the scheduler lets this thread run at a time. A thread that asks for less is run
 * sooner when it wakes up, and gets no more in all. So on a busy machine a dlock that has an
 * answer, or is handed the lock, is not left behind whatever runs there just then (EEVDF;
 * Documentation/scheduler/sched-eevdf.rst). From Linux 6.12 on; an earlier one has no such choice,
 * and nothing changes.
 */
#pragma once

#include <stdint.h>

/* Asks for the shortest. Returns what it was before (ns), for sched_slice_set() only; 0: it is as
 * it was. Children inherit it. */
uint64_t sched_slice_shorten(void);

/* Sets it back to what sched_slice_shorten() returned. 0: does nothing. Async-signal-safe. */
void sched_slice_set(uint64_t slice);
