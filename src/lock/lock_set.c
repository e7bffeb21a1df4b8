#include "lock/lock_set.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lock/service.h"
#include "lock/token.h"

#define SET_HELD    16384                /* a lock that does not fit is left out */
#define UNDO_LIMIT  (500 * NANOS_PER_MS) /* for releasing all when one was lost meanwhile */
#define RETRY_PAUSE (300 * NANOS_PER_MS)
#define REST_LIMIT  (100 * NANOS_PER_MS) /* for a release if one before it was not answered */

struct member {
	struct lock *lock; /* owned */
	const char *name;
	nanos asked_at; /* while it is held: from when it counts, */
	uint64_t fence; /* and its fencing token */
};

struct lock_set {
	struct lock lock; /* first: struct lock_service's functions get this */
	nanos renew_every;
	nanos retry_at; /* after a renewal that failed */
	size_t count;
	size_t next;  /* the first that is not held: asked, or waited for */
	size_t named; /* request.name's */
	size_t turn;  /* the next to be renewed */
	bool lost; /* a lock was, or an attempt was ended: all are to be released, and taken anew */
	int watch; /* owned; -1: none, see set_watch_fd */
	const struct server *server; /* borrowed */
	struct lock_request request; /* for them all; its strings are borrowed */
	const char *outer_held;      /* borrowed: the caller's request.held */
	char held[SET_HELD];         /* the same, and our own: the members' request.held */
	struct lock_answer grant;    /* by which request.name's is held */
	struct member members[];
};

/* From when those that are held count; NANOS_NEVER: none is held. */
static nanos set_oldest(const struct lock_set *set)
{
	nanos oldest = NANOS_NEVER;

	for (size_t i = 0; i < set->next; i++)
		if (set->members[i].asked_at < oldest)
			oldest = set->members[i].asked_at;
	return oldest;
}

/* When those that are held are to be renewed; NANOS_NEVER: none is. */
static nanos set_refresh_due(const struct lock_set *set)
{
	nanos due = clock_after(set_oldest(set), set->renew_every);

	return due < set->retry_at ? set->retry_at : due;
}

/* The result that counts of two: what is worse. */
static enum lock_result worse(enum lock_result a, enum lock_result b)
{
	static const enum lock_result order[] = {
		LOCK_LOST, LOCK_CANCELLED, LOCK_FAILED, LOCK_TIMEOUT, LOCK_GONE};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (a == order[i] || b == order[i])
			return order[i];
	return a;
}

static void note_handed(struct lock_set *set)
{
	set->lock.handed = NULL;
	for (size_t i = 0; i < set->count && !set->lock.handed; i++)
		set->lock.handed = lock_handed(set->members[i].lock);
}

/* ---- Giving back ------------------------------------------------------------------------------
 */

static bool is_released(enum lock_result result)
{
	return result == LOCK_RELEASED || result == LOCK_GONE || result == LOCK_LOST;
}

/* The time for one of so many. A server that was silent for one has little for each of the rest. */
static struct deadline share(struct deadline deadline, size_t among, bool silent)
{
	nanos span;

	if (deadline.until == NANOS_NEVER)
		return deadline;
	span = (deadline.until - clock_now()) / (nanos)among;
	return deadline_within(deadline, silent && span > REST_LIMIT ? REST_LIMIT : span);
}

/* The lock taken last is released first, so that no waiter for several is woken for nothing. The
 * success is that of NAME. */
static enum lock_result give_back(struct lock_set *set, const struct release_terms *release_terms,
	struct deadline deadline, struct failure *failure)
{
	static struct lock_answer answer; /* large */
	struct release_terms others = release_terms ? *release_terms : (struct release_terms){0};
	enum lock_result result = LOCK_RELEASED;
	bool silent = false;

	others.success = others.ran = false;
	set->lock.asked = false;
	for (size_t i = set->count; i-- > 0;) {
		struct lock *lock = set->members[i].lock;

		if (!lock->asked)
			continue;
		lock_release(lock, i == set->named ? release_terms : &others,
			share(deadline, i + 1, silent), &answer);
		if (answer.result == LOCK_FAILED)
			*failure = answer.failure;
		lock->asked = !is_released(answer.result);
		set->lock.asked = set->lock.asked || lock->asked;
		silent = silent || lock->asked;
		result = worse(result, answer.result);
	}
	set->next = 0;
	return result;
}

static void set_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;

	answer->result = give_back(set, release_terms, deadline, &answer->failure);
	note_handed(set);
	set->lost = true; /* the next attempt has another token */
}

/* The members have one token, which the page says. */
static void set_take_over(struct lock *lock, const struct lock_answer *granted)
{
	struct lock_set *set = (struct lock_set *)lock;

	for (size_t i = 0; i < set->count; i++) {
		struct member *member = &set->members[i];

		strlcpy(member->lock->token, set->lock.token, LOCK_TOKEN_SIZE);
		lock_take_over(member->lock, i == set->named ? granted : NULL);
	}
}

static enum lock_result set_verify(struct lock *lock, struct deadline deadline)
{
	struct lock_set *set = (struct lock_set *)lock;
	enum lock_result result = LOCK_RELEASED;

	for (size_t i = 0; i < set->count; i++)
		if (lock_handed(set->members[i].lock))
			result = worse(result, lock_verify(set->members[i].lock, deadline));
	note_handed(set);
	return result;
}

/* ---- Renewing ---------------------------------------------------------------------------------
 */

/* Renews the first `count`, one after the other, from where the last time has ended. If there was
 * time for some of them only, they count from the oldest all the same. */
static void renew(
	struct lock_set *set, size_t count, struct deadline deadline, struct lock_answer *answer)
{
	bool again = false;
	size_t done;

	for (done = 0; done < count; done++) {
		struct member *member = &set->members[set->turn % count];

		lock_renew(member->lock, deadline, answer);
		if (answer->result != LOCK_GRANTED && answer->result != LOCK_SET_AGAIN)
			break;
		again = again || answer->result == LOCK_SET_AGAIN;
		member->asked_at = answer->asked_at;
		set->turn = (set->turn + 1) % count;
	}
	if (done == count || (done > 0 && answer->result == LOCK_TIMEOUT))
		answer->result = again ? LOCK_SET_AGAIN : LOCK_GRANTED;
	answer->asked_at = set_oldest(set);
	answer->fence = set->members[set->named].fence;
}

static void set_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;

	renew(set, set->count, deadline, answer);
}

/* Renews what is held, if that is due; sets set->lost if one of them was lost. */
static void set_refresh(struct lock_set *set, struct deadline deadline)
{
	static struct lock_answer answer; /* large */

	if (clock_now() < set_refresh_due(set))
		return;
	set->retry_at = clock_now() + RETRY_PAUSE;
	renew(set, set->next, deadline, &answer);
	set->lost = answer.result == LOCK_LOST;
}

/* ---- Taking -----------------------------------------------------------------------------------
 */

static void close_members(struct lock_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		if (set->members[i].lock)
			lock_close(set->members[i].lock);
		set->members[i].lock = NULL;
	}
}

static bool open_member(struct lock_set *set, size_t which, struct failure *failure)
{
	struct member *member = &set->members[which];
	struct lock_request own = set->request;

	own.name = member->name;
	own.held = set->held;
	own.token = set->lock.token;
	own.token_page = NULL;
	if (which != set->named) {
		own.cooldown_ms = 0;
		own.once = NULL;
	}
	member->lock = lock_open(set->server, &own, failure);
	if (member->lock)
		member->lock->asked = false; /* the token is a fresh one */
	return member->lock;
}

/* One token for all: DLOCK_TOKEN is one, and what runs under it has them all. */
static bool open_members(struct lock_set *set, struct failure *failure)
{
	char token[LOCK_TOKEN_SIZE];

	token_make(set->request.self, token);
	strlcpy(set->lock.token, token, LOCK_TOKEN_SIZE);
	for (size_t i = 0; i < set->count; i++)
		if (!open_member(set, i, failure))
			return false;
	for (size_t i = 0; i < set->count; i++)
		set->members[i].lock->beside = set->members[(i + set->count - 1) % set->count].lock;
	return true;
}

/* Releases all and takes a fresh token, one for all: LOCK_LOST, so that they are asked for again.
 * Else why that is to be tried again first, with failure. */
static enum lock_result set_begin_anew(
	struct lock_set *set, struct deadline deadline, struct failure *failure)
{
	enum lock_result result;

	set->lost = true;
	result = give_back(set, NULL, deadline_within(deadline, UNDO_LIMIT), failure);
	if (set->lock.asked)
		return result == LOCK_LOST ? LOCK_TIMEOUT : result;
	close_members(set); /* nothing is left in the server by the old token */
	if (!open_members(set, failure))
		return LOCK_FAILED;
	set->lost = false;
	return LOCK_LOST;
}

/* A wait for the next lock is a wait under those that are held already. */
static void record_held(struct lock_set *set)
{
	size_t used = strlcpy(set->held, set->outer_held ? set->outer_held : "", SET_HELD);

	for (size_t i = 0; i < set->next && used < SET_HELD; i++)
		used += (size_t)snprintf(set->held + used, SET_HELD - used, "%s %s\n",
			set->lock.token, set->members[i].name);
}

/* The next one is had. The answer for them all is that of NAME, and comes with the last. */
static void record_grant(struct lock_set *set, struct lock_answer *answer)
{
	struct member *member = &set->members[set->next];
	nanos granted_at = answer->granted_at;

	member->asked_at = answer->asked_at;
	member->fence = answer->fence;
	if (set->next == set->named)
		set->grant = *answer;
	if (++set->next < set->count) {
		answer->result = LOCK_PART;
		return;
	}
	*answer = set->grant;
	answer->asked_at = set_oldest(set);
	answer->granted_at = granted_at;
}

static void set_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;
	struct member *member;

	if (set->next == set->count)
		set->next = 0; /* each finds what it has */
	member = &set->members[set->next];
	set_refresh(set, deadline);
	if (!set->lost) {
		record_held(set);
		lock_take(member->lock, deadline, answer);
		answer->name = member->name;
		set->lock.asked = set->lock.asked || member->lock->asked;
		set->lost = answer->result == LOCK_LOST;
	}
	if (set->lost)
		answer->result = set_begin_anew(set, deadline, &answer->failure);
	else if (answer->result == LOCK_GRANTED)
		record_grant(set, answer);
	note_handed(set);
}

static enum lock_result set_wait(
	struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct lock_set *set = (struct lock_set *)lock;

	for (;;) {
		struct member *member = &set->members[set->next];
		struct deadline limit = deadline;
		nanos due = set_refresh_due(set);
		enum lock_result result;

		if (due < limit.until)
			limit.until = due;
		result = lock_wait(member->lock, limit, failure);
		if (result != LOCK_TIMEOUT || clock_now() >= deadline.until)
			return result;
		set_refresh(set, deadline);
		if (set->lost)
			return LOCK_GRANTED;
	}
}

static void open_watch(struct lock_set *set)
{
	struct epoll_event event = {.events = EPOLLIN};

	set->watch = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < set->count && set->watch >= 0; i++) {
		int fd = lock_watch_fd(set->members[i].lock);

		if (fd >= 0)
			epoll_ctl(set->watch, EPOLL_CTL_ADD, fd, &event);
	}
}

static int first_watch_fd(const struct lock_set *set)
{
	int fd = -1;

	for (size_t i = 0; i < set->count && fd < 0; i++)
		fd = lock_watch_fd(set->members[i].lock);
	return fd;
}

/* The descriptor of the first member that has one. All go to one server: if it goes, they drop
 * together. Without a TTL, which nothing renews, each is told by itself that it was ended. */
static int set_watch_fd(const struct lock *lock)
{
	struct lock_set *set = (struct lock_set *)lock;

	if (set->grant.ttl_ms != LOCK_NO_TTL)
		return first_watch_fd(set);
	if (set->watch < 0)
		open_watch(set);
	return set->watch;
}

static void set_close(struct lock *lock)
{
	struct lock_set *set = (struct lock_set *)lock;

	close_members(set);
	if (set->watch >= 0)
		close(set->watch);
	free(set);
}

/* No URL names it. */
static const struct lock_service set_service = {
	.close = set_close,
	.take = set_take,
	.take_over = set_take_over,
	.wait = set_wait,
	.renew = set_renew,
	.release = set_release,
	.watch_fd = set_watch_fd,
	.verify = set_verify,
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

static void remove_doubles(struct lock_set *set)
{
	size_t kept = 1;

	for (size_t i = 1; i < set->count; i++)
		if (strcmp(set->members[i].name, set->members[kept - 1].name) != 0)
			set->members[kept++].name = set->members[i].name;
	set->count = kept;
}

static void sort_names(struct lock_set *set)
{
	qsort(set->members, set->count, sizeof(struct member), compare_names);
	remove_doubles(set);
	while (strcmp(set->members[set->named].name, set->request.name) != 0)
		set->named++;
}

struct lock *lock_set_open(const struct server *server, const struct lock_request *request,
	const char *const *also, size_t also_count, struct failure *failure)
{
	struct lock_set *set = calloc(1, sizeof(*set) + (also_count + 1) * sizeof(struct member));

	if (!set) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	set->lock.service = &set_service;
	set->lock.token = request->token_page ? request->token_page : set->lock.token_own;
	set->watch = -1;
	set->server = server;
	set->request = *request;
	set->renew_every = request->ttl_ms * NANOS_PER_MS / 3;
	set->outer_held = request->held;
	set->count = also_count + 1;
	set->members[0].name = request->name;
	for (size_t i = 0; i < also_count; i++)
		set->members[i + 1].name = also[i];
	sort_names(set);
	if (lock_service_can(server, request, LOCK_CAN_JOIN, failure) && open_members(set, failure))
		return &set->lock;
	set_close(&set->lock);
	return NULL;
}

uint64_t lock_fence(const struct lock *lock, const char *name)
{
	const struct lock_set *set = (const struct lock_set *)lock;

	for (size_t i = 0; lock->service == &set_service && i < set->count; i++)
		if (strcmp(set->members[i].name, name) == 0)
			return set->members[i].fence;
	return 0;
}
