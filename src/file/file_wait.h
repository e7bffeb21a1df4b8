/*
 * Waiting without asking: threads that block in the kernel, in flock(2) or for a byte of the record,
 * until the process that is in the way has ended or given up what it had. Nobody has to send a
 * message, so nobody can die before it is sent.
 */
#ifndef DLOCK_FILE_FILE_WAIT_H
#define DLOCK_FILE_FILE_WAIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdbool.h>

#include "base/clock.h"
#include "file/file_record.h"

#define OBSTACLES 64 /* of more permits than that only so many are watched, and the rest looked at */

struct file_lock;

/* What is in the way. */
struct obstacle {
	enum { OBSTACLE_FLOCK, OBSTACLE_BYTE, OBSTACLE_BELL } kind;
	int slot;
	enum record_byte byte;
	/* while it is watched: */
	struct file_lock *lock;
	pthread_t thread;
	bool got; /* the flock */
	atomic_bool over;
};

struct file_wait {
	struct obstacle obstacles[OBSTACLES];
	int count, threads;
	nanos look_at;   /* when something in the way is over by itself */
	int wakeup_fd;   /* owned, while there are threads */
	int bell_fd;
	atomic_bool stop;
	struct sigaction before;
	int64_t claimed_by; /* the ticket of the first, which may take the lock now; 0: it is not free, */
	nanos claim_until;  /* and for how long we leave it that */
	nanos circle_at; /* when to look for a circle; 0: not begun */
	int64_t circle;  /* the one that was seen; 0: none */
};

/* Ends the threads. True: one of them has the flock. */
bool file_wait_stop(struct file_wait *wait);

/* Whether waiting for the lock would never end: this one waits for a holder that waits, and so on, for
 * one of request.held; and came last of them. False with failure EXIT_DEADLOCK. */
bool file_deadlock_look(struct file_lock *f, struct failure *failure);

/* A wait begins, or goes on. */
void file_deadlock_begin(struct file_lock *f);

#endif
