#include "lock/lock_set.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/number.h"
#include "lock/service.h"
#include "lock/token.h"

#define SET_HELD    16384                /* a lock that does not fit is left out */
#define UNDO_LIMIT  (500 * NANOS_PER_MS) /* for releasing all when one was lost meanwhile */
#define RETRY_PAUSE (300 * NANOS_PER_MS)
#define REST_LIMIT  (100 * NANOS_PER_MS) /* for a release if one before it was not answered */
#define VERIFY_TURN (100 * NANOS_PER_MS)

struct member {
	struct lock *lock; /* owned */
	const char *name;
	nanos asked_at; /* while it is held: from when it counts */
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

static bool is_released(enum lock_result result)
{
	return result == LOCK_RELEASED || result == LOCK_GONE || result == LOCK_LOST;
}

/* The lock taken last is released first, so that no waiter for several is woken for nothing. Each
 * has its share of the time; but a server that was silent for one has little for each of the rest.
 * The success is that of NAME. */
static void set_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	static struct lock_answer one; /* large */
	struct lock_set *set = (struct lock_set *)lock;
	struct release_terms others = release_terms ? *release_terms : (struct release_terms){0};

	others.success = others.ran = false;
	answer->result = LOCK_RELEASED;
	lock->asked = false;
	for (size_t i = set->count; i-- > 0;) {
		struct lock *member = set->members[i].lock;
		nanos span = (deadline.until - clock_now()) / (nanos)(i + 1);

		if (!member->asked)
			continue;
		if (lock->asked && span > REST_LIMIT)
			span = REST_LIMIT;
		lock_release(member, i == set->named ? release_terms : &others,
			deadline_within(deadline, span), &one);
		if (one.result == LOCK_FAILED)
			answer->failure = one.failure;
		if (one.result > answer->result)
			answer->result = one.result;
		member->asked = !is_released(one.result);
		lock->asked = lock->asked || member->asked;
	}
	set->next = 0;
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

/* In turns: none waits until the others are settled. */
static bool set_verify(struct lock *lock, nanos limit)
{
	struct lock_set *set = (struct lock_set *)lock;
	nanos until = clock_now() + limit;
	bool left;

	do {
		left = false;
		for (size_t i = 0; i < set->count; i++)
			left |= lock_verify(set->members[i].lock, number_least(limit, VERIFY_TURN));
	} while (left && clock_now() < until);
	return left;
}

/* Renews those that are held, one after the other, from where the last time has ended. If there was
 * time for some of them only, they count from the oldest all the same. */
static void set_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;
	bool again = false;
	size_t done;

	for (done = 0; done < set->next; done++) {
		struct member *member = &set->members[set->turn % set->next];

		lock_renew(member->lock, deadline, answer);
		if (answer->result != LOCK_GRANTED && answer->result != LOCK_SET_AGAIN)
			break;
		again = again || answer->result == LOCK_SET_AGAIN;
		member->asked_at = answer->asked_at;
		set->turn = (set->turn + 1) % set->next;
	}
	if (done == set->next || (done > 0 && answer->result == LOCK_TIMEOUT))
		answer->result = again ? LOCK_SET_AGAIN : LOCK_GRANTED;
	answer->asked_at = set_oldest(set);
	answer->fence = set->members[set->named].lock->fence;
}

/* Renews what is held, if that is due; sets set->lost if one of them was lost. */
static void set_refresh(struct lock_set *set, struct deadline deadline)
{
	static struct lock_answer answer; /* large */

	if (clock_now() < set_refresh_due(set))
		return;
	set->retry_at = clock_now() + RETRY_PAUSE;
	set_renew(&set->lock, deadline, &answer);
	set->lost = answer.result == LOCK_LOST;
}

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
static void begin_anew(struct lock_set *set, struct deadline deadline, struct lock_answer *answer)
{
	set_release(&set->lock, NULL, deadline_within(deadline, UNDO_LIMIT), answer);
	if (set->lock.asked) {
		if (answer->result == LOCK_LOST)
			answer->result = LOCK_TIMEOUT;
		return;
	}
	close_members(set); /* nothing is left in the server by the old token */
	set->lost = !open_members(set, &answer->failure);
	answer->result = set->lost ? LOCK_FAILED : LOCK_LOST;
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

	set->next %= set->count; /* if it is asked again, each finds what it has */
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
		begin_anew(set, deadline, answer);
	else if (answer->result == LOCK_GRANTED)
		record_grant(set, answer);
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

/* The descriptor of the first that has one. All go to one server: if it goes, they drop together.
 * Without a TTL, which nothing renews, each is told by itself that it was ended. */
static int set_watch_fd(const struct lock *lock)
{
	struct lock_set *set = (struct lock_set *)lock;
	struct epoll_event event = {.events = EPOLLIN};
	bool each = set->grant.ttl_ms == LOCK_NO_TTL;
	int fd = -1;

	if (each && set->watch >= 0)
		return set->watch;
	if (each)
		set->watch = epoll_create1(EPOLL_CLOEXEC);
	for (size_t i = 0; i < set->count && (each || fd < 0); i++) {
		fd = lock_watch_fd(set->members[i].lock);
		if (each && fd >= 0)
			epoll_ctl(set->watch, EPOLL_CTL_ADD, fd, &event);
	}
	return each ? set->watch : fd;
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

/* In the order in which they are taken, each once. */
static void sort_names(struct lock_set *set)
{
	struct member *members = set->members;
	size_t kept = 0;

	qsort(members, set->count, sizeof(struct member), compare_names);
	for (size_t i = 0; i < set->count; i++) {
		if (kept == 0 || strcmp(members[i].name, members[kept - 1].name) != 0)
			members[kept++].name = members[i].name;
		if (strcmp(members[i].name, set->request.name) == 0)
			set->named = kept - 1;
	}
	set->count = kept;
}

struct lock *lock_set_open(const struct server *server, const struct lock_request *request,
	const char *const *also, size_t also_count, struct failure *failure)
{
	struct lock_set *set = lock_new(sizeof(*set) + (also_count + 1) * sizeof(struct member),
		&set_service, request, failure);

	if (!set)
		return NULL;
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
			return set->members[i].lock->fence;
	return 0;
}
