/*
 * The record of a lock, in a file beside its own (.NAME): its holders, its waiters, the
 * counter of fencing tokens. Changed under a mutex that is held for microseconds.
 *
 * A process may be killed at any write, and what it left is read right. Head and slots are written
 * by one write(2) each, inside one page, which a signal cannot divide. A slot is written last of
 * what belongs to it. Each has a checksum: a record in which a byte has changed grants nothing.
 *
 * A slot stands for a process that lives as long as its byte is locked by F_OFD_SETLK. Such a lock
 * is shared by fork(2), so it ends when front and keeper are both gone. The kernel wakes those that
 * wait for it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "file/file_folder.h"
#include "lock/lock.h"

#define RECORD_PAGE 4096
#define RECORD_MOST 4096 /* slots */
#define RECORD_FEW  24   /* of them in the first page of the file */
#define RECORD_HELD 1328 /* bytes of the tokens that a waiter holds */

enum slot_state {
	SLOT_FREE,
	SLOT_WAITING,
	SLOT_HOLDING,
	SLOT_OVER, /* given back, but kept: --at-least */
};

/* 128 bytes, so that none crosses a page. A slot that was never written is zeros, and so is a slot
 * of another boot once it was read. */
struct slot {
	uint64_t check;
	uint64_t boot; /* a digest of the boot in which it was written; in another one it is free */
	int32_t state, mode, permits, priority;
	uint64_t fence; /* a holder's */
	uint64_t unused;
	int64_t ticket; /* a waiter's place: when it came (us), unlike any other's */
	int64_t since;  /* a holder's grant (us) */
	int64_t ttl_ms; /* of a detached holder */
	nanos until;    /* when a detached holder expires; by the host's clock, as the next */
	nanos least;    /* until when the lock stays though its holder has ended; 0: no longer */
	uint8_t detached, broken, unused_too;
	uint8_t passed;  /* a waiter that did not take its turn: others go ahead until it asks */
	uint8_t in_line; /* a waiter that may wait in flock(2) */
	uint8_t asks;    /* a success on record would do for this waiter */
	uint8_t rest[2];
	int32_t seat; /* of a holder of permits: DLOCK_SLOT */
	uint8_t more[20];
	int64_t serial; /* which bytes are its owner's; no other has the same */
};

/* 1,024 bytes; magic 0: there is no record yet. */
struct record_head {
	uint64_t check, magic;
	int32_t count; /* of slots that were ever in use */
	int32_t unused;
	uint64_t fence;
	int64_t ticket, serial; /* the last that were given out */
	int64_t success;        /* when the last COMMAND that ended well began (us) */
	int64_t granted, contended, timeouts, lost, waited_us, held_us;
	char key[KEY_SIZE]; /* the lock's; a file's name may be cut */
	char rest[279];
};

/* The owner that a slot stands for. */
struct slot_text {
	char token[LOCK_TOKEN_SIZE];
	char owner[OWNER_TEXT]; /* of owner_write */
	char held[RECORD_HELD]; /* lines "TOKEN NAME": request.held */
};

struct record {
	int fd;         /* owned */
	int own;        /* our slot; -1: none */
	int64_t serial; /* and which bytes are ours */
	bool reading;   /* the record is only looked at: at worst without the mutex */
	const char *path, *file, *key; /* borrowed; of the folder, and of the lock in it */
	uint64_t boot;
	sigset_t mask;
	bool clock_known;
	nanos clock_offset; /* of our time namespace's clock */
	struct slot *slots; /* owned; head.count of them, valid inside the mutex; of one that is
			     * only looked at until it is closed */
	size_t room;
	union {
		char page[RECORD_PAGE]; /* the first of the file */
		struct {
			struct record_head head;
			struct slot few[RECORD_FEW];
		};
	};
};

/* BYTE_END: an older dlock waits for it. */
enum record_byte { BYTE_QUEUE, BYTE_HOLDER, BYTE_END };

/* The name of the boot that an owner lives in; ours, if that one does not say. */
uint64_t record_boot(const struct owner *self);

/* A record that is not open. */
void record_begin(struct record *record, uint64_t boot);

/* Opens the lock's record; writing: makes it, for that key. False with failure. */
bool record_open(struct record *record, const struct folder *folder, const char *file,
	const char *key, bool writing, struct failure *failure);
void record_close(struct record *record);

/* Takes the mutex and reads: LOCK_GRANTED; LOCK_TIMEOUT, with the process that has it for so long;
 * LOCK_CANCELLED; LOCK_FAILED. All signals are blocked until record_leave. */
enum lock_result record_enter(
	struct record *record, struct deadline deadline, struct failure *failure);
void record_leave(struct record *record);

/* Inside the mutex: what has changed, the head first; the text of our own slot. False with failure.
 */
bool record_commit(struct record *record, struct failure *failure);
bool record_write_text(const struct record *record, const char *token, const struct owner *owner,
	const char *held, struct failure *failure);

/* Puts on record what ran last under our own slot; a success is kept beside it. Inside the mutex,
 * before record_commit. False with failure. */
bool record_write_run(struct record *record, int exit, const struct owner *owner, bool success,
	struct failure *failure);

/* The record of it; zeros: nothing. */
void record_read_run(const struct record *record, bool success, struct lock_run *run);

/* A text that cannot be read is empty. owner: NULL: it is not asked for. */
void record_read_text(
	const struct record *record, int slot, struct slot_text *text, struct owner *owner);

/* Finds a free slot for us, record->own, and bytes that no other had, record->serial. Locks the
 * holder's bytes, or all if it is to wait. False with failure. */
bool record_claim(struct record *record, bool waits, struct failure *failure);

/* Gives the byte of the queue back, or all that is ours, and wakes those that wait for it. */
void record_drop(const struct record *record, bool all);

/* Whether the slot's process lives: the byte is locked. Our own: true. */
bool record_lives(const struct record *record, int slot, enum record_byte byte);

/* Blocks until the byte of that serial is free. False with errno: EINTR. All that wait for it are
 * woken, and none keeps it from another. Any thread. */
bool record_await(int fd, int64_t serial, enum record_byte byte);

/* A moment by the host's clock: processes of several time namespaces use the record. */
nanos record_moment(struct record *record, nanos moment);

/* Until when a slot keeps the lock, as its holder's, by our clock: NANOS_NEVER: as long as a
 * process lives; 0: it does not. */
nanos record_holds_until(const struct record *record, int slot);

/* A waiter's place: what comes first is less (us). */
int64_t record_order(int64_t ticket, int priority);

/* When there was a success under that ID (us); 0: none is on record; -1 with failure. With keep_ms
 * > 0 there is one now, which is kept for that long. Inside the mutex. */
int64_t record_once(const struct folder *folder, const char *file, const char *once,
	int64_t keep_ms, struct failure *failure);
