/*
 * The same lock inside its holder. A dlock that is told of a holder around itself asks the service
 * for nothing: it is a guest of that holder's keeper. The keeper listens on an abstract unix socket
 * that is named by a hash of its token, and lends each guest its lease, read-only. The guest runs
 * its ward by the deadlines in that page. The keeper renews until its own tree is gone and its last
 * guest has left.
 *
 * Host and guest prove to each other that they know the token, by hashes of it: any user may
 * connect to an abstract socket, or take its name once it is free. Such sockets belong to a network
 * namespace.
 *
 * How a host knows that a guest is there: by its connection, which the guest's front and its keeper
 * both have; and by a lock on the page (F_OFD_SETLK), so that the host's front sees it, too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lock/lock.h"

struct failure;
struct lease;
struct task;

#define GUEST_MOST 16 /* locks at a time that are held around us */

/* ---- the guest: its front, before it forks a keeper; that has all by fork ---- */

struct guest_lock {
	const char *name; /* borrowed */
	char token[LOCK_TOKEN_SIZE];
	uint64_t fence;
};

struct guest {
	struct guest_lock locks[GUEST_MOST]; /* the locks that are held around us */
	size_t count;
	int ended_fd; /* readable when one of these holders has ended, or lost its lock */
};

/* A wish to a holder around us. */
struct guest_wish {
	const char *name;  /* the lock's */
	const char *token; /* the holder's */
	bool told; /* the server has told of the holder: it is the same lock, whatever the server
		    * is called */
	bool by_ancestry; /* the holder is an ancestor, and no environment tells its token */
};

enum guest_end {
	GUEST_JOINED,
	GUEST_COVERED, /* the caller of `hold` holds it by another `hold` already */
	GUEST_OTHER,   /* the token is not the lock's; or, by ancestry, it was released */
	GUEST_SILENT,  /* nothing answers to that token here */
	GUEST_REFUSED, /* see failure */
};

/* Three seconds at most. GUEST_JOINED: it is in task->guest, and the lease goes by it (its hosts,
 * its grace). The page and the connection stay open as long as this process. */
enum guest_end guest_join(
	const struct task *task, const struct guest_wish *wish, struct failure *failure);

/* The words for the ward, whether the lock is our own or held around us: the fencing token of one
 * of its locks, and the owner token. */
uint64_t guest_fence(const struct task *task, const char *name);
const char *guest_token(const struct task *task);

/* The one of that name; NULL: it is not held around us. */
const struct guest_lock *guest_find(const struct guest *guest, const char *name);

/* ---- the host: a keeper, on its main thread ---- */

struct guest_id { /* the caller of `hold`; zeros: there is none */
	pid_t pid;
	uint64_t start, space;
};

struct guest_seat {
	int fd;
	pid_t pid;   /* 0: it is not to be seen from here */
	bool joined; /* else it has asked for nothing so far */
	struct guest_id id;
};

struct guests {
	int listener, events; /* -1: none */
	struct guest_seat *seats;
	size_t count, joined;
};

/* Listens. If that cannot be done, there will be no guests. */
void guests_open(struct guests *guests, const char *token);

/* Sees to what has come at `listener` and `events`. released: by the caller of `hold`; nothing that
 * knows the lock by ancestry comes in. */
void guests_attend(struct guests *guests, const struct task *task, bool released);

/* The lock is lost, or the end is near: each guest stops its ward. No further ones come in. */
void guests_dismiss(struct guests *guests);

/* "PID PID" of those that are there. Returns text. */
const char *guests_name(const struct guests *guests, char *text, size_t size);

/* Whether a guest has the page of that lease: for a front whose keeper is dead. */
bool guests_have_page(const struct lease *lease);
