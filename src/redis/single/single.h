/* A lock on one Redis server, as the files of this folder share it. */
#pragma once

#include "base/clock.h"
#include "base/failure.h"
#include "lock/service.h"
#include "net/io_result.h"
#include "redis/keys.h"
#include "redis/link/link.h"
#include "redis/script/owner_record.h"
#include "redis/script/replies.h"

struct call;
struct reply;

/* A server that was silent for so long in one try is gone, or the way to it. */
#define SINGLE_TRY (5 * NANOS_PER_SEC)

/* Waiting, on a quorum too, in ms. */
#define WAIT_LISTEN_MS   20000 /* at most, until the waiter looks, or tries again */
#define WAIT_LISTEN_MORE 2000  /* at random on top, so that waiters do not come in step */
#define WAIT_FOREIGN_MS  1000  /* a foreign client does not tell when it releases its lock */
#define WAIT_LEASE_MS    2000  /* of a waiter that does not listen (LEASE in prelude.lua) */

/* The knowledge of a waiter. All moments on CLOCK_BOOTTIME. */
struct wait_state {
	bool listening;     /* BLPOP is under way */
	nanos listen_until; /* when it ends by itself */
	nanos late_at;      /* until when the next reply is waited for */
	bool in_seconds;    /* the server takes whole seconds only for that: Redis 5 */
	bool cut;           /* BLPOP ends later, and we ask again at that moment */
	int64_t told_ms;    /* look then, says a message; -1: there was none */
	unsigned looks;     /* how many there were */
	bool for_room;      /* this one is also for room beside sharers */
	bool moved;         /* by what the look has found so far, a new request is needed */
	nanos look_at;      /* when the lock may come free by expiry; NANOS_NEVER: not by itself */
	int rank;
	bool foreign;
	char holder[LOCK_TOKEN_SIZE]; /* "": none that is known */
	uint64_t seen; /* the counter of fences: less than that, and the server lost its memory */
	nanos settled_at;  /* when the server has settled, if we do not queue */
	nanos known_until; /* the holder's last known expiry */
	nanos span;        /* the longest it was ever seen to have */
	nanos dropped_at;  /* when the connection was lost; 0: it was not */
};

struct single {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct lock_request request;
	struct link link;
	struct keys keys;
	struct handed handed; /* by the last request */
	char mode[OWNER_RECORD_MODE];
	char text[OWNER_RECORD_TEXT];
	char once[KEYS_ONCE_SIZE]; /* "": none */
	bool spent;                /* this token was released; the next attempt takes a fresh one */
	bool loss_told;            /* the server has counted it */
	uint64_t fence, generation; /* 0: not granted, as far as is known */
	bool has_slot;              /* as the answer had it */
	int slot;
	int64_t since_us;
	nanos granted_at;
	uint64_t ticket; /* 0: none */
	size_t size;     /* of the quorum that this server is one of; 0: it is alone. Then also */
	char waiter[LOCK_TOKEN_SIZE]; /* by which it stands in queues, whatever the attempt's token;
				       */
	bool leaves;                  /* with the release it leaves them */
	struct wait_state waiting;
};

/* How a step ended, for callers of lock.h. Out of patience is a failure if it was not theirs. */
enum lock_result single_result(enum io_result io, struct deadline deadline);

/* Once another token stands in lock.token. False: out of memory. */
bool single_name_keys(struct single *single, struct failure *failure);

/* Before a request: if there is no connection, that of another of several locks is used. */
void single_borrow(struct single *single);

/* Behind a request that is not answered: writes the release, in full, and waits for nothing; false:
 * not all of it, or there is no connection. And reads until its answer comes. */
bool single_write_release(struct single *single, const struct release_terms *release_terms);
enum io_result single_await_release(
	struct single *single, struct deadline deadline, struct lock_answer *answer);

/* After that answer, as nothing of this attempt is left in the server. */
void single_forget(struct single *single);

/* For the row in single.c. */
lock_take_function single_take, single_renew;
lock_take_over_function single_take_over;
lock_release_function single_release;
lock_verify_function single_verify;
lock_wait_function single_wait;
lock_force_function single_force;
lock_list_function single_list;

/* Takes over a LOCK_BUSY answer. */
void wait_adopt_answer(struct single *single, const struct lock_answer *answer);

/* Stops listening, before any other request. */
void wait_stop(struct single *single);

/* Lets the time pass, up to a moment. LOCK_GRANTED: ask now. */
enum lock_result wait_for_moment(nanos moment, struct deadline deadline);

/* How long the last known holder may still come back, in ms, for the next request. */
int64_t wait_hold_off(struct single *single);
