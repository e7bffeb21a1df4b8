/*
 * A process in our process group that does nothing: a signal that it has got as well was sent to the
 * whole group, and not to us alone. The kernel does not tell a receiver which it was. A signal for
 * a group goes to its youngest process first (attach_pid() in kernel/pid.c), so when it reaches us
 * the bystander has it already.
 *
 * For `kill %1` and timeout(1), on a terminal: COMMAND is in our group, and has the signal too.
 * timeout(1) sends it to us first and then to the group. So what comes is held back for a moment
 * that nobody notices. One thread; the bystander dies with it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"

struct bystander {
	pid_t pid;     /* our child; 0: there is none, and nothing is held back */
	uint64_t held; /* the signals that are: bit N - 1 for signal N */
	nanos due;     /* when it is to be decided about them; NANOS_NEVER: there are none */
};

#define BYSTANDER_NONE {.due = NANOS_NEVER}

/* If it cannot be forked there is none. */
void bystander_start(struct bystander *bystander);

void bystander_end(struct bystander *bystander);

/* Whether the signal is held back from now on. */
bool bystander_hold(struct bystander *bystander, int sig);

/* The signals among those held back that the group did not get. After a signal for the group there is
 * another bystander, which has none. */
uint64_t bystander_decide(struct bystander *bystander);
