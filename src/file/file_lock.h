/*
 * One lock of a `file:` service, as one holder or waiter sees it.
 *
 * The kernel decides which process holds it, by flock(2) on the lock's file. Front and keeper share
 * one open file description of that file, and no other process has it. So the `flock` program
 * excludes us and is excluded, and the lock is free when front and keeper are gone. The record says
 * the rest: which waiter is next, and what is held without a process.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "file/file_record.h"
#include "lock/service.h"

struct file_lock;

/*
 * Waiting without asking. The waiter's own thread sleeps in poll(2). The kernel's locks cannot be
 * polled, so helpers block for them, a thread for each way in which the wait may end: the holders
 * that keep us out have ended, or the waiter ahead has left. No process has to send a message, so
 * none can die before it is sent.
 *
 * All that wait behind a holder hear of its end, so any number of them may be stopped at that
 * moment. Only the first asks at once. The others do so when each waiter ahead has had a second.
 */

/* If there are more holders of permits, only so many are watched, and all looked at now and then.
 */
#define WATCHED 16

/* The holders and waiters in the way; or the time, and all else that may end a wait. */
struct file_wait {
	int64_t holders[WATCHED]; /* by their serials; all are to end, */
	int holder_count;
	bool any;            /* or any of them */
	bool partial;        /* there are more */
	int64_t ahead;       /* the waiter right before us, by its serial; 0: there is none */
	bool flock;          /* flock(2) is in the way, and no dlock on record has it */
	enum lock_mode mode; /* in which it is waited for */
	bool bell;           /* a ring of the bell ends the wait, too */
	int bell_fd;         /* owned; -1: none */
	nanos claim;         /* for how long those ahead of us may take what is free */
	nanos free_at;       /* from when on nothing is in their way, so far as is known */
	nanos look_at;       /* when to ask all the same */
	uint64_t fence;      /* the last one when we asked */
};

struct file_lock {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct lock_request request;
	const struct server *server; /* borrowed */
	struct folder folder;
	char key[KEY_SIZE], file[FILE_NAME_SIZE];
	int fd;       /* owned; of the lock's file; -1: not open */
	bool flocked; /* the open file has the flock */
	bool loss_told;
	int ended_fd; /* owned; a holder's, readable when the lock was broken; -1: none */
	struct record record;
	struct file_wait wait;
};

/* Inside the mutex; the record is read. */
struct slot *file_own(const struct file_lock *f);
void file_unlock(struct file_lock *f); /* gives the flock back */
void file_forget(struct file_lock *f); /* our slot is no longer ours */
/* Gives back what a waiter has: its place, and the flock. */
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
void file_close_all(struct file_lock *f);

/* struct lock_service's. */
lock_take_function file_take, file_renew;
lock_release_function file_release;
lock_wait_function file_wait;
lock_force_function file_force;
lock_check_function file_check;
lock_list_function file_list;

extern const struct lock_service file_service;
