/*
 * For how long the scheduler lets this thread run at a time. Whoever asks for less is run sooner
 * when he wakes up, and gets no more in all: on a busy machine a dlock that has an answer, or is
 * handed the lock, is not left behind whatever runs there just then (EEVDF;
 * Documentation/scheduler/sched-eevdf.rst).
 * From Linux 6.12 on; an earlier one has no such choice, and nothing changes.
 */
#ifndef DLOCK_PROCESS_SCHED_SLICE_H
#define DLOCK_PROCESS_SCHED_SLICE_H

#include <stdint.h>

/* Asks for the shortest. What it was before (ns), for sched_slice_set() and for nobody else; 0: it
 * is as it was. Its children inherit it. */
uint64_t sched_slice_shorten(void);

/* As it was. 0: does nothing. Async-signal-safe. */
void sched_slice_set(uint64_t slice);

#endif
