/*
 * How `dlock release NAME` inside a script reaches the keeper of `dlock hold NAME`: an abstract
 * unix socket, which leaves nothing on disk, called after the caller and the lock. To connect to it
 * is to ask for the lock's release; the answer is the exit code. Such sockets belong to a network
 * namespace, and anybody may connect to them or take their names, so each side looks who the other
 * is: the same user, or root.
 */
#ifndef DLOCK_DOORBELL_H
#define DLOCK_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What it is called after. */
struct doorbell {
	pid_t pid;      /* the caller */
	uint64_t start; /* his, as struct process has it */
	const char *prefix, *name;
};

/* The keeper's: a descriptor that is readable when somebody rings; -1 with errno. */
int doorbell_open(const struct doorbell *bell);

/* Who has rung, to be answered in the end; -1: nobody who may. */
int doorbell_ringer(int fd);

/* Answers him, and all who have rung since. fd or ringer may be -1. */
void doorbell_answer(int fd, int ringer, int exit_code);

/* Rings, and waits for the answer: the exit code; -1: there is no such bell; -2: it was not
 * answered. */
int doorbell_ring(const struct doorbell *bell);

#endif
