/*
 * The guardian: a process that releases what the front holds while it still asks for more.
 *
 * Why it exists: of several locks (--also) the front takes one after the other, and only the
 * request for the last one is a keeper's. If the front is killed while it waits for b, no other
 * process knows that it has a, which would stay taken for a TTL. So before the first request the
 * front forks a guardian, which knows the tokens and sleeps. It releases everything once no other
 * can: the front is gone, and so is a keeper that it may have forked. From the grant on the keeper
 * guards all, and the guardian ends. If the server stands still as -w runs out, the front ends in
 * time, and leaves the release to the guardian. A run with one lock has none: its place in a queue
 * is passed over by itself.
 *
 * What ends it is a pipe, the leash: the front and its keepers have its writing end. That end is
 * closed only when the last of them has died, however fast one was forked while the other was
 * killed. The front's pidfd would not tell of a keeper that was just being forked.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct lock;

/* What it calls itself (PR_SET_NAME). An outer dlock knows it by that (survivors.h). */
#define GUARDIAN_PROGRAM "dlock guardian"

struct guardian {
	pid_t pid; /* our child; 0: there is none */
	int fd;    /* its pidfd, readable when it has ended; -1: none */
	int leash; /* -1: none */
};

#define GUARDIAN_NONE ((struct guardian){0, -1, -1})

/* Forks one for the lock with its tokens of this moment, in the place of one that was there. False
 * with errno, and that one stays. */
bool guardian_start(struct guardian *guardian, struct lock *lock);

/* For the front: ends it at once, whatever it does, and reaps it; it gives nothing back any more.
 * So not before the front has released what it can itself, or a keeper has all. */
void guardian_end(struct guardian *guardian);

/* For the front, if it could not take back in time what it asked for: the guardian lives on without
 * it, and releases what is left. */
void guardian_leave(struct guardian *guardian);

/* For a keeper that has the lock, and guards all from now on: the guardian ends, and the front is
 * to reap it. */
void guardian_dismiss(int leash);
