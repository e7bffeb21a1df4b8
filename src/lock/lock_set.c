#include "lock/lock_set.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "lock/service.h"
#include "lock/token.h"
#include "net/server.h"

#define SET_HELD    16384                /* a lock that does not fit is left out */
#define UNDO_LIMIT  (500 * NANOS_PER_MS) /* for releasing all when one was lost meanwhile */
#define RETRY_PAUSE (300 * NANOS_PER_MS)

struct member {
	struct lock *lock; /* owned */
	const char *name;
	bool asked; /* something may be left in the server */
	nanos asked_at;
	struct lock_answer answer; /* the last; while it is held, that of the grant */
	uint64_t fence;
};

struct lock_set {
	struct lock lock; /* first: struct lock_service's functions get this */
	nanos renew_every;
	nanos retry_at; /* after a renewal that failed */
	size_t count;
	size_t next;  /* the first that is not held: asked, or waited for */
	size_t named; /* request.name's */
	bool lost; /* a lock was, or an attempt was ended: all are to be released, and taken anew */
	bool sent; /* a request for several has left, since open_members */
	bool one_by_one;             /* the service's batch is of no use here */
	struct lock_part *parts;     /* owned; for a batch */
	struct lock_answer *renewed; /* owned; for one of renewals */
	int watch;                   /* owned; -1: none, see set_watch_fd */
	const struct server *server; /* borrowed */
	struct lock_request request; /* for them all; its strings are borrowed */
	const char *outer_held;      /* borrowed: the caller's request.held */
	char *page;                  /* borrowed; the members' token; NULL: nobody reads it */
	char held[SET_HELD];         /* the same, and our own: the members' request.held */
	struct member members[];
};

/* The token of NAME, which lock_token gives. */
static void record_token(struct lock_set *set)
{
	strlcpy(set->lock.token, lock_token(set->members[set->named].lock), LOCK_TOKEN_SIZE);
}

/* Takes over a grant from member->answer. */
static void member_record_grant(struct member *member)
{
	member->fence = member->answer.fence;
	member->asked_at = member->answer.asked_at;
}

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
		LOCK_LOST, LOCK_CANCELLED, LOCK_FAILED, LOCK_TIMEOUT, LOCK_GONE, LOCK_SET_AGAIN};

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (a == order[i] || b == order[i])
			return order[i];
	return a;
}

static const struct lock_batch *batch_of(const struct lock_set *set)
{
	return set->one_by_one ? NULL : set->server->service->batch;
}

/* The parts to be released, the last lock first. The success is that of NAME. */
static size_t list_releases(struct lock_set *set, const struct release_terms *release_terms,
	const struct release_terms *others)
{
	size_t count = 0;

	for (size_t i = set->count; i-- > 0;) {
		struct member *member = &set->members[i];

		if (member->asked)
			set->parts[count++] = (struct lock_part){.lock = member->lock,
				.answer = &member->answer,
				.release_terms = i == set->named ? release_terms : others};
	}
	return count;
}

static bool is_released(enum lock_result result)
{
	return result == LOCK_RELEASED || result == LOCK_GONE || result == LOCK_LOST;
}

static void forget_released(struct lock_set *set)
{
	set->lock.asked = false;
	for (size_t i = 0; i < set->count; i++) {
		struct member *member = &set->members[i];

		member->asked = member->asked && !is_released(member->answer.result);
		set->lock.asked = set->lock.asked || member->asked;
	}
}

/* The lock taken last is released first, so that no waiter for several is woken for nothing. */
static enum lock_result give_back(struct lock_set *set, const struct release_terms *release_terms,
	struct deadline deadline, struct failure *failure)
{
	struct release_terms others = release_terms ? *release_terms : (struct release_terms){0};
	enum lock_result result = LOCK_RELEASED;
	size_t count;

	others.success = others.ran = false;
	count = list_releases(set, release_terms, release_terms ? &others : NULL);
	if (batch_of(set))
		batch_of(set)->release(set->parts, count, deadline);
	for (size_t i = 0; i < count; i++) {
		struct lock_part *part = &set->parts[i];

		if (!part->done)
			lock_release(part->lock, part->release_terms, deadline, part->answer);
		if (part->answer->result == LOCK_FAILED)
			*failure = part->answer->failure;
		result = worse(result, part->answer->result);
	}
	set->next = 0;
	forget_released(set);
	return result;
}

/* Renews those of the first `count` that can be renewed in less time than one after the other; the
 * rest is for renew_member. */
static void renew_batch(struct lock_set *set, size_t count, struct deadline deadline)
{
	for (size_t i = 0; i < count; i++)
		set->parts[i] = (struct lock_part){
			.lock = set->members[i].lock, .answer = &set->renewed[i]};
	if (batch_of(set))
		batch_of(set)->renew(set->parts, count, deadline);
}

static enum lock_result renew_member(
	struct lock_set *set, size_t which, struct deadline deadline, struct lock_answer *answer)
{
	struct member *member = &set->members[which];

	if (set->parts[which].done)
		*answer = set->renewed[which];
	else
		lock_renew(member->lock, deadline, answer);
	if (answer->result == LOCK_GRANTED || answer->result == LOCK_SET_AGAIN)
		member->asked_at = answer->asked_at;
	return answer->result;
}

/* Renews what is held, if that is due; sets set->lost if one of them was lost. */
static void set_refresh(struct lock_set *set, struct deadline deadline)
{
	static struct lock_answer answer; /* large */

	if (clock_now() < set_refresh_due(set))
		return;
	set->retry_at = clock_now() + RETRY_PAUSE;
	renew_batch(set, set->next, deadline);
	for (size_t i = 0; i < set->next && !set->lost; i++)
		set->lost = renew_member(set, i, deadline, &answer) == LOCK_LOST;
}

static void close_members(struct lock_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		if (set->members[i].lock)
			lock_close(set->members[i].lock);
		set->members[i].lock = NULL;
	}
}

/* One token for all: DLOCK_TOKEN is one, and what runs under it has them all. */
static bool open_members(struct lock_set *set, struct failure *failure)
{
	char token[LOCK_TOKEN_SIZE];

	token_make(set->request.self, token);
	for (size_t i = 0; i < set->count; i++) {
		struct lock_request own = set->request;
		struct member *member = &set->members[i];

		own.name = member->name;
		own.held = set->held;
		own.token = token;
		own.token_page = NULL;
		if (i != set->named) {
			own.cooldown_ms = 0;
			own.once = NULL;
		}
		member->lock = lock_open(set->server, &own, failure);
		if (!member->lock)
			return false;
		member->asked = false;
	}
	if (set->page)
		strlcpy(set->page, token, LOCK_TOKEN_SIZE);
	record_token(set);
	set->sent = false;
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

static void set_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;
	enum lock_result result = LOCK_GRANTED;
	struct failure failure = {0};

	renew_batch(set, set->count, deadline);
	for (size_t i = 0; i < set->count && result != LOCK_LOST && result != LOCK_CANCELLED; i++) {
		result = worse(result, renew_member(set, i, deadline, answer));
		if (answer->result == LOCK_FAILED)
			failure = answer->failure;
	}
	answer->result = result;
	answer->failure = failure;
	answer->asked_at = set_oldest(set);
	answer->fence = set->members[set->named].fence;
}

static void set_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;

	answer->result = give_back(set, release_terms, deadline, &answer->failure);
	set->lost = true; /* the next attempt has another token */
}

static const char *set_handed(const struct lock *lock)
{
	const struct lock_set *set = (const struct lock_set *)lock;
	const char *token = NULL;

	for (size_t i = 0; i < set->count && !token; i++)
		token = lock_handed(set->members[i].lock);
	return token;
}

static enum lock_result set_verify(struct lock *lock, struct deadline deadline)
{
	struct lock_set *set = (struct lock_set *)lock;
	enum lock_result result = LOCK_RELEASED;

	for (size_t i = 0; i < set->count; i++)
		if (lock_handed(set->members[i].lock))
			result = worse(result, lock_verify(set->members[i].lock, deadline));
	return result;
}

/* A wait for the next lock is a wait under those that are held already. */
static void record_held(struct lock_set *set)
{
	size_t used = strlcpy(set->held, set->outer_held ? set->outer_held : "", SET_HELD);

	for (size_t i = 0; i < set->next && used < SET_HELD; i++)
		used += (size_t)snprintf(set->held + used, SET_HELD - used, "%s %s\n",
			lock_token(set->members[i].lock), set->members[i].name);
}

/* The next ones, as many as one request is for. How many were answered. */
static size_t take_batch(struct lock_set *set, struct deadline deadline)
{
	size_t count = set->count - set->next, answered;

	if (!batch_of(set) || count < 2)
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct member *member = &set->members[set->next + i];

		set->parts[i] = (struct lock_part){
			.lock = member->lock, .answer = &member->answer, .asked = member->asked};
	}
	answered = batch_of(set)->take(set->parts, count, &set->sent, deadline);
	for (size_t i = 0; i < count; i++) {
		set->members[set->next + i].asked = set->parts[i].asked;
		set->lock.asked = set->lock.asked || set->parts[i].asked;
	}
	set->one_by_one = answered == 0;
	return answered;
}

/* Whether all were answered that were asked for together, and had; then `next` has moved on. Else
 * members[next] has the answer that is to be told. */
static bool record_batch(struct lock_set *set, size_t answered)
{
	for (; answered > 0; answered--) {
		struct member *member = &set->members[set->next];

		if (member->answer.result != LOCK_GRANTED)
			return false;
		member_record_grant(member);
		set->next++;
	}
	return true;
}

/* False: the next one is not to be had; members[next] has the answer. */
static bool take_next(struct lock_set *set, struct deadline deadline)
{
	struct member *member = &set->members[set->next];
	size_t answered = take_batch(set, deadline);

	if (answered > 0)
		return record_batch(set, answered);
	record_held(set);
	lock_take(member->lock, deadline, &member->answer);
	member->asked = member->asked || lock_may_be_asked(member->lock);
	set->lock.asked = set->lock.asked || member->asked;
	return record_batch(set, 1);
}

/* The answer for them all, from those of each. */
static void complete(struct lock_set *set, struct lock_answer *answer)
{
	const struct member *named = &set->members[set->named];

	record_token(set);
	*answer = named->answer;
	answer->name = named->name;
	answer->asked_at = set_oldest(set);
	answer->granted_at = set->members[set->count - 1].answer.granted_at;
}

static void set_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;
	bool goes_on = true;

	set_refresh(set, deadline);
	while (!set->lost && goes_on && set->next < set->count)
		goes_on = take_next(set, deadline);
	if (set->lost || (!goes_on && set->members[set->next].answer.result == LOCK_LOST)) {
		answer->result = set_begin_anew(set, deadline, &answer->failure);
	} else if (goes_on) {
		complete(set, answer);
	} else {
		record_held(set); /* the wait is under what was had just now */
		*answer = set->members[set->next].answer;
		answer->name = set->members[set->next].name;
	}
}

/* The members have one token, which the page says. */
static void set_take_over(struct lock *lock, const struct lock_answer *granted)
{
	struct lock_set *set = (struct lock_set *)lock;

	for (size_t i = 0; i < set->count; i++) {
		struct member *member = &set->members[i];

		strlcpy(member->lock->token, set->page, LOCK_TOKEN_SIZE);
		member->asked = true;
		lock_take_over(member->lock, i == set->named ? granted : NULL);
	}
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

/* Of the first that has one. All go to one server: if it goes, they drop together. Without a TTL,
 * which nothing renews, each is told by itself that it was ended. */
static int set_watch_fd(const struct lock *lock)
{
	struct lock_set *set = (struct lock_set *)lock;

	if (set->members[0].answer.ttl_ms != LOCK_NO_TTL)
		return first_watch_fd(set);
	if (set->watch < 0)
		open_watch(set);
	return set->watch;
}

static uint64_t set_fence(const struct lock *lock, const char *name)
{
	const struct lock_set *set = (const struct lock_set *)lock;

	for (size_t i = 0; i < set->count; i++)
		if (strcmp(set->members[i].name, name) == 0)
			return set->members[i].fence;
	return 0;
}

static void set_close(struct lock *lock)
{
	struct lock_set *set = (struct lock_set *)lock;

	close_members(set);
	if (set->watch >= 0)
		close(set->watch);
	free(set->parts);
	free(set->renewed);
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
	.handed = set_handed,
	.verify = set_verify,
	.fence = set_fence,
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
	set->lock.token = set->lock.token_own;
	set->page = request->token_page;
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
	set->parts = calloc(set->count, sizeof(*set->parts));
	set->renewed = calloc(set->count, sizeof(*set->renewed));
	if (!set->parts || !set->renewed)
		failure_set(failure, EXIT_SYSTEM, "out of memory");
	else if (lock_service_can(server, request, LOCK_CAN_JOIN, failure) &&
		 open_members(set, failure))
		return &set->lock;
	set_close(&set->lock);
	return NULL;
}
