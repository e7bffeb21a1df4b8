/*
 * How `dlock release NAME` inside a script reaches the keeper of `dlock hold NAME`: an abstract
 * unix socket, which leaves nothing on disk, called after the caller and the lock. To connect to it
 * is to ask for the lock's release; the answer is the exit code. Such sockets belong to a network
 * namespace, and anybody may connect to them or take their names, so each side looks who the other
 * is: the same user, or root.
 */
#ifndef DLOCK_HOLD_RELEASE_SOCKET_H
#define DLOCK_HOLD_RELEASE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What it is called after. */
struct release_address {
	pid_t pid;      /* the caller */
	uint64_t start; /* its start, as struct process has it */
	uint64_t space; /* its PID namespace, as process_namespace() has it: several may share the
			 * network namespace. 0: not known, then there is no such bell */
	const char *prefix, *name;
};

#define RELEASE_SOCKET_REQUESTERS                                                                  \
	16 /* at one time; others wait in the backlog, or for room in it */

/* The keeper's side; zeroed at first, but with fd -1. */
struct release_socket {
	int fd; /* readable when somebody rings; -1: none */
	int requesters[2 * RELEASE_SOCKET_REQUESTERS + 1]; /* with a full backlog, which holds one
						  more (unix_recvq_full() in net/unix/af_unix.c) */
	int count;                                         /* of those who wait for the answer */
};

/* False with errno: there will be no bell. */
bool release_socket_open(struct release_socket *keeper, const struct release_address *named);

/* Lets those in who have rung. Whether anybody has. */
bool release_socket_accept(struct release_socket *keeper);

/* The same for the last time, before the lock is given back: after that the caller may take it
 * again, with another keeper and another bell. */
void release_socket_close(struct release_socket *keeper);

void release_socket_answer(struct release_socket *keeper, int exit_code);

/* Rings, and waits for the answer: the exit code; -1: there is no such bell; -2: it was not
 * answered. */
int release_socket_request(const struct release_address *named);

#endif
