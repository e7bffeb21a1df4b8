/*
 * The page that all processes of a simulated run share with their scheduler (../simulate), which alone writes `now`
 * and `generation`. A thread has one slot; it is idle if its slot says until when it waits, and that it has found
 * nothing to do in this generation.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define SEAM_SLOTS   128
#define SEAM_RUNNING (-1) /* due: it does not wait */

struct seam_slot {
	_Atomic int64_t pid, tid; /* tid 0: free */
	_Atomic int64_t due;      /* until when it waits, in ns */
	_Atomic int64_t seen;     /* the generation in which it found nothing to do */
};

struct seam_page {
	_Atomic int64_t now; /* ns since boot, for everybody */
	_Atomic int64_t generation;
	_Atomic int64_t activity; /* how often a wait has ended */
	int64_t spare;
	struct seam_slot slots[SEAM_SLOTS];
};

/* Maps the page that SIM_PAGE names; ends the process if it cannot. */
struct seam_page *seam_open(void);

/* The moment now, and a sleep, for a COMMAND. Any thread. */
int64_t seam_now(void);
void seam_sleep(int64_t ms);
