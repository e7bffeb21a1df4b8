/*
 * The contenders for one lock: those that hold it and those that wait for it, in the order in which
 * they came, as a service keeps them whose clients decide by that list. Pure.
 */
#pragma once

#include "lock/lock.h"
#include "lock/lock_list.h"

enum contender_state {
	CONTENDER_BY_PLACE, /* it does not say: contenders_sort makes one of the next two of it */
	CONTENDER_WAITING,
	CONTENDER_HOLDING,
	CONTENDER_OVER,     /* it has released the lock, but that stays: for those inside, or for
			     * --at-least */
	CONTENDER_INSIDE,   /* inside another holder, whose place counts */
	CONTENDER_RELEASED, /* about to be removed: it does not count */
};

/* The service's own struct begins with it. */
struct contender {
	const char *id; /* its owner token, or the random end of that; "": none is known */
	int64_t place;  /* in the order; unlike that of any other which is not inside */
	int64_t around; /* INSIDE: the place of the one around it */
	enum contender_state state;
	enum lock_mode mode;
	int permits;  /* with LOCK_PERMITS */
	bool foreign; /* no dlock's; nothing below is known then */
	bool detached, hold;
	const char *owner; /* as owner_write() has it; NULL: not known */
	int64_t since_us;  /* when it came, or was granted the lock, by its own wall clock; 0 */
	int64_t ttl_ms;
	uint64_t fence;
};

struct contenders {
	void *list;  /* owned */
	size_t size; /* of the service's struct */
	size_t count;
};

/* Room for `most` of them, all zeros. False: out of memory. contenders_free frees what it gave. */
bool contenders_open(struct contenders *all, size_t size, size_t most);
void contenders_free(struct contenders *all);

struct contender *contenders_at(const struct contenders *all, size_t i);

/* By place; those inside stand behind one that is not. One that does not say whether it holds the
 * lock does so if nothing before it is in its way. */
void contenders_sort(struct contenders *all);

/* NULL: there is none. By its id, inside another or not; by its place, in the second case the one
 * that is not inside. */
struct contender *contenders_find(const struct contenders *all, const char *id, bool inside);
struct contender *contenders_find_place(const struct contenders *all, int64_t place);

/* The first that holds the lock; NULL: none does. */
struct contender *contenders_holder(const struct contenders *all);

/* The last before `own` (NULL: before a newcomer) that keeps it from holding the lock; NULL: none
 * does. Of permits it is a holder, before it or behind it, if there are too many of them, and
 * none of those before `own` waits. *rank: how many wait before it. */
struct contender *contenders_obstacle(const struct contenders *all, const struct contender *own,
	enum lock_mode mode, int permits, int *rank);

/* Whether it is a holder, one that counts. */
bool contender_may_hold(const struct contender *c);

/* Whether it is one, and the one with that fencing token, or inside that; 0: any. */
bool contender_has_fence(const struct contenders *all, const struct contender *c, int64_t fence);

/* Whether c is inside the one at that place. */
bool contender_is_inside(const struct contender *c, int64_t place);

/* The holder around the one that asks, as reentrance_find: with what that says in the answer. NULL:
 * there is none. An id that is the end of a token counts as that of the owner's. */
struct contender *contenders_find_outer(const struct contenders *all,
	const struct lock_request *request, struct lock_answer *answer);

/* Whether it may be that holder, or says whether the asker's lock is covered: what it says of
 * itself has to be known before. */
bool contender_may_be_outer(const struct contender *c, const struct lock_request *request);

/* Says in an answer of LOCK_BUSY that it has the lock. foreign: what those are called that are no
 * dlock's; static. */
void contender_describe(const struct contender *c, const char *foreign, struct lock_answer *answer);

/* What `dlock status` shows of the lock. owners: room for twice as many as there are. ttl_ms of the
 * holders is what their lease has left; one without a place has the state CONTENDER_RELEASED. There
 * is no record of the past: the counters count those that are there. */
void contenders_view(
	const struct contenders *all, struct lock_view_owner *owners, struct lock_view *view);

/* Shows it so, unless nobody has it or waits for it. False with failure: out of memory. */
bool contenders_show(const struct contenders *all, const char *name, const char *key,
	void (*show)(const struct lock_view *view, void *context), void *context,
	struct failure *failure);
