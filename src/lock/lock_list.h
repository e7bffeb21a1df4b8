/* Which locks a server has, and what holds and waits for them; kept as copies of our own. */
#pragma once

#include <stddef.h>

#include "lock/lock.h"
#include "lock/owner.h"

/* Begins as zeros. */
struct lock_list {
	struct lock_view *list; /* owned */
	size_t count;
	bool out_of_memory;
};

/* A lock, as `dlock status` shows it. All borrowed, for the time of the callback. */
struct lock_view_owner {
	struct owner owner;
	enum lock_mode mode;
	int priority;
	int64_t ms;       /* a holder: held; a waiter: waited */
	int64_t ttl_ms;   /* a holder's lease; -1: none */
	int64_t since_us; /* a holder's grant, server's wall clock */
	bool detached;
	/* If the service's list shows them (service.h), for the time of the callback; else NULL:
	 */
	const char *token; /* of a holder that is a process, or of a waiter */
	const char *held;  /* a waiter's, as request.held */
};

/* Since the server has known the lock; it forgets one that was not used for a month. */
struct lock_counters {
	int64_t acquisitions, contentions, timeouts, losses;
	int64_t waited_us, held_us;
};

/* Why no client is granted a lock though it is free. */
enum lock_hold_off {
	LOCK_HOLD_OFF_NONE,
	LOCK_HOLD_OFF_SETTLE, /* a waiter gives holders time to return: --settle */
	LOCK_HOLD_OFF_RETURN, /* the server lost its data; a waiter knew of a holder */
};

struct lock_view {
	const char *name;
	const char *key;
	enum lock_mode mode;
	bool foreign;
	uint64_t fence; /* 0: none known */
	int64_t ttl_ms; /* -1: no expiry (only a foreign lock) */
	const struct lock_view_owner *holders, *waiters;
	size_t holder_count, waiter_count;
	struct lock_counters counters;
	struct lock_run last_run, last_success; /* of which the service keeps a record */
	enum lock_hold_off hold_off;
	int64_t hold_off_ms; /* for so much longer, as long as its waiter lives */
	const char *dissent; /* of a quorum: which servers say otherwise, and what; NULL: none */
};

/* Takes a lock; context is its owner's. */
typedef void lock_view_taker(const struct lock_view *view, void *context);

/* For lock_list_look(): context is a struct lock_list. */
lock_view_taker lock_list_take;

/* By name. False with failure EXIT_SYSTEM when not all could be kept. */
bool lock_list_sort(struct lock_list *views, struct failure *failure);

/* They are as at the beginning then. */
void lock_list_free(struct lock_list *views);

/* The question; all borrowed until lock_list_close. */
struct lock_query {
	const char *prefix;
	char *const *patterns; /* NAMEs, or globs (with * ? [); none: all. They may change between
				* two looks */
	size_t pattern_count;
	bool idle_too;  /* locks as well that are not held and have no waiters; */
	bool named_too; /* of these what is known of a NAME that is among the patterns as it is */
	bool exact;     /* no pattern is a glob */
};

/* Whether that pattern may stand for other NAMEs. Pure. */
bool lock_query_is_glob(const struct lock_query *query, const char *pattern);

/* Whether NAME is one of the patterns, as it is. Pure. */
bool lock_query_names(const struct lock_query *query, const char *name);

/* Whether NAME is among those that are asked for. Pure. */
bool lock_query_wants(const struct lock_query *query, const char *name);

struct lock_lister;

/* Prepares looks at every lock under the prefix that matches one of the patterns. NULL with
 * failure. */
struct lock_lister *lock_list_open(
	const struct server *server, const struct lock_query *query, struct failure *failure);

/* One look: shows the locks in no particular order, each once. The deadline's patience is for each
 * of the server's answers: there may be any number of locks. The same connection serves the next
 * look, if the service can keep one. False with failure; the next look connects anew. */
bool lock_list_look(struct lock_lister *lister, lock_view_taker *show, void *context,
	struct deadline deadline, struct failure *failure);
void lock_list_close(struct lock_lister *lister);
