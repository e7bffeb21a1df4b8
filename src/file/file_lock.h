/*
 * One lock of a `file:` service, as one party has it or wants it.
 *
 * Who holds it is the kernel's to say: flock(2) on the lock's file, by an open file description that
 * front and keeper share, and nobody else. So `flock` excludes us and is excluded, and the lock is
 * free when both are gone. The record says the rest: whose turn it is, and what no process holds.
 */
#ifndef DLOCK_FILE_FILE_LOCK_H
#define DLOCK_FILE_FILE_LOCK_H

#include "file/file_record.h"
#include "file/file_wait.h"
#include "lock/service.h"

struct file_lock {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct lock_request request;
	const struct server *server; /* borrowed */
	struct folder folder;
	char key[KEY_SIZE], file[FILE_NAME_SIZE];
	int fd;        /* owned; of the lock's file; -1: not open */
	bool flocked;  /* it has the flock */
	bool loss_told;
	uint64_t fence; /* of our grant */
	int ended_fd;  /* owned; readable when the lock was broken; -1: not asked for */
	struct record record;
	struct file_wait wait;
};

/* Inside the mutex; the record is read. */
struct slot *file_own(struct file_lock *f);
void file_unlock(struct file_lock *f); /* gives the flock back */
void file_forget(struct file_lock *f); /* our slot is nobody's */

/* Opens what is not open yet, and enters the record's mutex. As record_enter. */
enum lock_result file_enter(
	struct file_lock *f, struct deadline deadline, struct lock_answer *answer);
void file_close_all(struct file_lock *f);

/* struct lock_service's. */
void file_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
void file_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer);
void file_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer);
enum lock_result file_wait(struct lock *lock, struct deadline deadline, struct failure *failure);
void file_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer);

#endif
