/*
 * Asking for a lock until it is had, or is not to be had: a request, a wait, the next request. The
 * keeper of a run does so, and `acquire` in its one process.
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "base/failure.h"
#include "lock/lock.h"

struct nesting;

/* The meaning of cancel_fd, which became readable, for the asking. */
enum asking_news {
	ASKING_GOES_ON,
	ASKING_BEGINS_ANEW, /* ask now: the request tells more than it did */
	ASKING_ENDS,
};

/* The part that the caller of asking_run adds, on its thread. `context` is struct asking's. */
struct asking_ops {
	/* NULL: nobody wants to know. Until when the next answer is waited for. */
	void (*expect)(void *context, nanos until);
	/* No request has come through, and the next is tried soon. Nothing of the wait is on the
	 * terminal when it returns. */
	void (*unreached)(void *context, const struct failure *why);
	/* The lock is busy, as answer says, and is waited for. */
	void (*denied)(void *context, const struct lock_answer *answer);
	/* Reads what has come by cancel_fd. */
	enum asking_news (*news)(void *context);
	/* NULL: always. After a wait: whether a grant could be used now. If not, the place in the
	 * queue is given up until news say that it could. */
	bool (*is_ready)(void *context);
	/* Uses a grant: LOCK_GRANTED. Else it is given back: LOCK_TIMEOUT (it came too late),
	 * LOCK_CANCELLED, or LOCK_FAILED, with granted->failure. */
	enum lock_result (*use)(void *context, struct lock_answer *granted);
};

/* Everything borrowed must outlive the asking. */
struct asking {
	struct lock *lock;
	const struct asking_ops *ops;
	void *context;
	struct nesting *nesting;  /* of this process, */
	const struct owner *self; /* which asks for it */
	nanos started;            /* `wait` counts from here */
	nanos wait;               /* 0: do not; NANOS_NEVER: for ever */
	int cancel_fd;            /* ends each wait */

	/* Its own; zeros. */
	struct lock_answer denial; /* the last that was busy, a success on record, or too few
				    * replicas */
	struct failure trouble;    /* why no server has answered yet */
	bool told;                 /* the service has said so itself */
	bool asked;                /* a request was made */
	bool passes;               /* a server is there, but cannot serve yet */
	nanos began;      /* the first answer is waited for from here: the start, or the end of
			   * --settle for which -n has waited */
	bool answered;    /* a server has answered: from now on a broken connection is mended */
	nanos denied_at;  /* when `denial` came; 0: none did */
	nanos lost_at;    /* since when it cannot be reached any more; 0: it can */
	bool loss_told;   /* the user knows */
	bool outstanding; /* something of ours may be left in the server, */
	bool may_hold;    /* and that may be a lock, not only a place in the queue, which expires
			   * soon */
};

/* Asks until the lock was used, or is not to be had: LOCK_GRANTED; LOCK_ALREADY and LOCK_BUSY (the
 * time is over), with `denial`; LOCK_AROUND, with *answer; LOCK_CANCELLED (the news were the end);
 * LOCK_UNREPLICATED and LOCK_FAILED, with *failure. *answer is that to the last request.
 * outstanding: asking_withdraw has something to take back. */
enum lock_result asking_run(
	struct asking *asking, struct lock_answer *answer, struct failure *failure);

/* Takes back what may be under way, within a span: a place in the queue, a request that may yet be
 * granted. A lock that was handed on by it is looked after for `verify` at most. */
void asking_withdraw(struct asking *asking, nanos limit, nanos verify);

/* The same while the caller waits: right after asking_run, which has not granted the lock. Within
 * half a second; within 80 ms if the server failed, or if the time of -w is over. */
void asking_give_up(struct asking *asking, enum lock_result result);
