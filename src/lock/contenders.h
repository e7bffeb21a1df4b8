/*
 * The contenders for one lock: those that hold it and those that wait for it, in the order in which
 * they came, as a service keeps them whose clients decide by that list. Pure.
 */
#pragma once

#include "lock/lock.h"
#include "lock/lock_list.h"

enum contender_state {
	CONTENDER_BY_PLACE, /* not said: contenders_sort makes WAITING or HOLDING of it */
	CONTENDER_WAITING,
	CONTENDER_HOLDING,
	CONTENDER_OVER,     /* released, but the lock stays for --at-least */
	CONTENDER_RELEASED, /* about to be removed: it does not count */
};

/* The service's own struct begins with it. */
struct contender {
	const char *id; /* its owner token, or the random end of that; "": none is known */
	int64_t place;  /* in the order; unlike that of any other */
	enum contender_state state;
	enum lock_mode mode;
	int permits;  /* with LOCK_PERMITS */
	bool foreign; /* no dlock's; nothing below is known then */
	bool detached;
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

/* By place. A contender that does not say whether it holds the lock does so if nothing before it is
 * in its way. */
void contenders_sort(struct contenders *all);

/* By its id; NULL: there is none. */
struct contender *contenders_find(const struct contenders *all, const char *id);

/* The first that holds the lock; NULL: none does. */
struct contender *contenders_holder(const struct contenders *all);

/* The last before `own` (NULL: before a newcomer) that keeps it from holding the lock; NULL: none
 * does. With permits it is a holder, before it or behind it, if there are too many of them, and
 * none of those before `own` waits. *rank: how many wait before it. */
struct contender *contenders_obstacle(const struct contenders *all, const struct contender *own,
	enum lock_mode mode, int permits, int *rank);

/* Whether it is a holder, one that counts. */
bool contender_may_hold(const struct contender *c);

/* Says in an answer of LOCK_BUSY that it has the lock. foreign: what those are called that are no
 * dlock's; static. */
void contender_describe(const struct contender *c, const char *foreign, struct lock_answer *answer);

/* The lock as `dlock status` shows it. owners: room for twice as many as there are. ttl_ms of the
 * holders is what their lease has left; one without a place has the state CONTENDER_RELEASED. There
 * is no record of the past: the counters count those that are there. */
void contenders_view(
	const struct contenders *all, struct lock_view_owner *owners, struct lock_view *view);

/* Shows it so, unless nobody has it or waits for it. False with failure: out of memory. */
bool contenders_show(const struct contenders *all, const char *name, const char *key,
	lock_view_taker *show, void *context, struct failure *failure);
