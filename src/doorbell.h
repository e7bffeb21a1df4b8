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

#define DOORBELL_RINGERS 16

/* The keeper's side; zeroed at first, but with fd -1. */
struct doorbell_keeper {
	int fd; /* readable when somebody rings; -1: none */
	int ringers[DOORBELL_RINGERS];
	int count; /* of those who wait for the answer */
};

/* False with errno: there will be no bell. */
bool doorbell_open(struct doorbell_keeper *keeper, const struct doorbell *bell);

/* Lets those in who have rung. Whether anybody has. */
bool doorbell_heed(struct doorbell_keeper *keeper);

/* The same for the last time, before the lock is given back: after that the caller may take it
 * again, with another keeper and another bell. */
void doorbell_close(struct doorbell_keeper *keeper);

void doorbell_answer(struct doorbell_keeper *keeper, int exit_code);

/* Rings, and waits for the answer: the exit code; -1: there is no such bell; -2: it was not
 * answered. */
int doorbell_ring(const struct doorbell *bell);

#endif
