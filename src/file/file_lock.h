/*
 * One lock of a `file:` service, as one holder or waiter sees it.
 *
 * The kernel decides which process holds it, by flock(2) on the lock's file. Front and keeper share
 * one open file description of that file, and no other process has it. So the `flock` program
 * excludes us and is excluded, and the lock is free when front and keeper are gone. The record says
 * the rest: which waiter is next, and what is held without a process.
 */
#ifndef DLOCK_FILE_FILE_LOCK_H
#define DLOCK_FILE_FILE_LOCK_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "file/file_record.h"
#include "lock/service.h"

struct file_lock;

/*
 * Waiting without asking: threads block in the kernel, in flock(2) or for a byte of the record.
 * They do so until the process in the way has ended or given up what it had. No process has to send
 * a message, so none can die before it is sent.
 *
 * For the first obstacle the waiter's own thread blocks, so that the kernel wakes it without a
 * detour. The other threads end its system call by a signal.
 */

/* Of more permits than that only so many are watched, and all looked at now and then. */
#define OBSTACLES 16

/* The things in the way; or the time, and whatever else may end a wait. */
struct obstacle {
	enum { OBSTACLE_FLOCK, OBSTACLE_BYTE, OBSTACLE_BELL, OBSTACLE_TIME } kind;
	enum record_byte byte;
	enum record_waiting waiting;
	int64_t serial; /* of the owner of that byte */
};

/* A thread that waits for it. */
struct watch {
	struct file_lock *lock;
	struct obstacle what;
	int bell_fd;
	nanos patience; /* for so long those ahead of us may go first; 0: none are */
	pthread_t thread;
	atomic_bool over; /* the thread no longer blocks */
};

struct file_wait {
	struct obstacle obstacles[OBSTACLES];
	int count;
	nanos look_at;          /* when something in the way is over by itself */
	int bell_fd, folder_fd; /* owned; -1: none */
	enum lock_mode mode;    /* in which flock is waited for */
	nanos claim;            /* for how long those ahead of us may take what is free */
	_Atomic nanos free_at;  /* from when on nothing is in their way, so far as is known */
	uint64_t fence;         /* the last one when we asked */
	/* until file_wait_end: */
	struct watch threads[OBSTACLES];
	int thread_count;
	int wakeup_fd; /* owned; ends the threads' calls of poll(2); -1: there is no thread */
	pthread_t waiter;
	pid_t pid;         /* in which the threads are */
	atomic_bool stop;  /* the threads are to end */
	atomic_bool over;  /* the waiter's call is to end, */
	atomic_int result; /* with this */
	struct deadline deadline;
	nanos due; /* look_at, as the thread sees it */
	struct sigaction before;
};

struct file_lock {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct lock_request request;
	const struct server *server; /* borrowed */
	struct folder folder;
	char key[KEY_SIZE], file[FILE_NAME_SIZE];
	int fd;        /* owned; of the lock's file; -1: not open */
	bool flocked;  /* the open file has the flock */
	bool orphaned; /* another process, which is dead, has asked by our token */
	bool loss_told;
	int ended_fd; /* owned; a holder's, readable when the lock was broken; -1: none */
	struct record record;
	struct file_wait wait;
};

/* Inside the mutex; the record is read. */
struct slot *file_own(const struct file_lock *f);
void file_unlock(struct file_lock *f); /* gives the flock back */
void file_forget(struct file_lock *f); /* our slot is no longer ours */
/* Gives back what a waiter has: its place, and what its threads got. */
void file_step_aside(struct file_lock *f);

/* Whether one of the files that we have open was removed. */
bool file_is_removed(const struct file_lock *f);

/* Says which holder is in the way, and until when. Inside the mutex. */
void file_name_holder(const struct file_lock *f, int slot, struct lock_answer *answer);

/* Opens what is not open yet, lets `change` decide inside the record's mutex, and writes what it
 * changed. The answer is change's, or LOCK_TIMEOUT, LOCK_CANCELLED, LOCK_FAILED. */
void file_change(struct file_lock *f, struct deadline deadline,
	void (*change)(struct file_lock *f, const void *terms, struct lock_answer *answer),
	const void *terms, struct lock_answer *answer);
/* The threads of a wait are stopped by then. */
void file_close_all(struct file_lock *f);

/* After a wait: its threads have been told to end, and are waited for here, so that the grant is
 * not held up. A process that was forked meanwhile has none of them. */
void file_wait_end(struct file_wait *wait);

/* struct lock_service's. */
void file_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
void file_take_over(struct lock *lock, const struct lock_answer *granted);
void file_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
void file_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer);
enum lock_result file_wait(struct lock *lock, struct deadline deadline, struct failure *failure);
void file_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer);

bool file_check(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure);
bool file_list(struct lock_lister *lister, struct deadline deadline, struct failure *failure);

#endif
