/*
 * How `dlock release NAME` inside a script reaches the keeper of `dlock hold NAME`: by an abstract
 * unix socket, which leaves nothing on disk and is named after the caller and the lock. To connect
 * to it is to ask for the lock's release; the answer is the exit code. Such sockets belong to a
 * network namespace, and any user may connect to them or take their names. So each side looks at
 * the user of the other: it must be the same, or root.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The parts of the name of the socket. */
struct release_address {
	pid_t pid;      /* the caller */
	uint64_t start; /* its start, as struct process has it */
	uint64_t space; /* its PID namespace, as process_namespace() has it: several may share the
			   network namespace. 0: not known, then there is no such socket */
	const char *prefix, *name;
};

#define RELEASE_SOCKET_REQUESTERS                                                                  \
	16 /* at one time; others wait in the backlog, or for room in it */

/* The keeper's side; zeroed at first, but with fd -1. */
struct release_socket {
	int fd; /* readable when a request has come; -1: none */
	int requesters[2 * RELEASE_SOCKET_REQUESTERS + 1]; /* with a full backlog, which holds one
						  more (unix_recvq_full() in net/unix/af_unix.c) */
	int count; /* of requests that are not answered yet */
};

/* False with errno: there will be no such socket. */
bool release_socket_open(struct release_socket *keeper, const struct release_address *named);

/* Accepts the requests that have come. Whether there are any. */
bool release_socket_accept(struct release_socket *keeper);

/* The same for the last time, before the lock is released. After that the caller may take the
 * lock again, with another keeper and another socket. */
void release_socket_close(struct release_socket *keeper);

void release_socket_answer(struct release_socket *keeper, int exit_code);

/* Asks for the release, and waits for the answer: the exit code; -1: there is no such socket; -2:
 * it was not answered. */
int release_socket_request(const struct release_address *named);
