/*
 * Waiting for a lock, with a look at circles of waits now and then: the holder of the lock that we
 * wait for waits in turn, if only by way of others, for a lock that is held around us. The list
 * shows what each waiter holds. So we go the other way round: from the locks that are held around
 * us to their waiters, and from what these hold to its waiters, until one of them holds what we
 * wait for.
 *
 * Only waiters that came before us are looked at. So exactly one sees a circle, the one that came
 * last, and it gives up. It misses none, as each is on record with what it holds before it waits.
 */
#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "lock/lock_list.h"
#include "lock/service.h"

/* Most waits are over by the first look. A waiter that died before it is gone by the second. */
#define FIRST    NANOS_PER_SEC
#define CONFIRM  (1300 * NANOS_PER_MS)
#define AGAIN    (20 * NANOS_PER_SEC)
#define PATIENCE NANOS_PER_SEC

#define HOLDERS (8 * LOCK_TOKEN_SIZE)
#define HELD    2048
#define NAME    513
#define SHOWN   "60" /* characters of a name, in words */
#define MOST    256  /* waits that are looked at */

/* A waiter, and what it holds. */
struct wait_for {
	char name[NAME]; /* of the lock that it waits for */
	char held[HELD];
	char holder[LOCK_TOKEN_SIZE]; /* of that lock: what `behind` holds it by */
	int behind;                   /* the number of the wait that keeps it waiting */
	char token[LOCK_TOKEN_SIZE];
	int64_t since;
};

struct circle {
	struct lock_lister *lister;
	char holders[HOLDERS];        /* of the lock that we wait for; lines */
	char holder[LOCK_TOKEN_SIZE]; /* the one that is looked for, of the lock */
	char name[NAME];              /* of the lock that is looked at */
	int at, count;
	struct wait_for waits[MOST]; /* the first is ours */
};

/* --- What there is ---------------------------------------------------------------------------- */

/* Any of several permits may come free. A holder without a token is no process. */
static bool counts(const struct lock_view_owner *holder)
{
	return holder->mode != LOCK_PERMITS && !holder->detached && holder->token;
}

static void see_own(const struct lock_view *view, void *context)
{
	struct circle *circle = context;
	struct wait_for *own = &circle->waits[0];

	for (size_t i = 0; i < view->holder_count; i++)
		if (counts(&view->holders[i])) {
			strlcat(circle->holders, view->holders[i].token, HOLDERS);
			strlcat(circle->holders, "\n", HOLDERS);
		}
	for (size_t i = 0; i < view->waiter_count; i++)
		if (view->waiters[i].token && strcmp(view->waiters[i].token, own->token) == 0)
			own->since = view->waiters[i].since_us;
}

static bool is_held(const struct circle *circle, const struct lock_view *view)
{
	for (size_t i = 0; i < view->holder_count; i++)
		if (counts(&view->holders[i]) &&
			strcmp(view->holders[i].token, circle->holder) == 0)
			return true;
	return false;
}

/* Whether it came before us, and holds what no other that we know does. */
static bool is_news(const struct circle *circle, const struct lock_view_owner *waiter)
{
	const struct wait_for *own = &circle->waits[0];

	if (!waiter->token || !waiter->held || *waiter->held == '\0' ||
		waiter->since_us > own->since ||
		(waiter->since_us == own->since && strcmp(waiter->token, own->token) >= 0))
		return false;
	for (int i = 0; i < circle->count; i++)
		if (strncmp(circle->waits[i].held, waiter->held, HELD - 1) == 0)
			return false;
	return true;
}

static void see_waiters(const struct lock_view *view, void *context)
{
	struct circle *circle = context;

	for (size_t i = 0; is_held(circle, view) && i < view->waiter_count; i++) {
		const struct lock_view_owner *waiter = &view->waiters[i];
		struct wait_for *wait = &circle->waits[circle->count];

		if (circle->count == MOST || !is_news(circle, waiter))
			continue;
		strlcpy(wait->name, view->name, NAME);
		strlcpy(wait->held, waiter->held, HELD);
		strlcpy(wait->holder, circle->holder, LOCK_TOKEN_SIZE);
		strlcpy(wait->token, waiter->token, LOCK_TOKEN_SIZE);
		wait->behind = circle->at;
		wait->since = waiter->since_us;
		circle->count++;
	}
}

/* --- The circle ------------------------------------------------------------------------------- */

/* Reads a line "TOKEN NAME" into circle->holder and name. Its length; 0: there is no more. */
static size_t read_line(struct circle *circle, const char *line)
{
	size_t length = strcspn(line, "\n"), token = strcspn(line, " \n");

	snprintf(circle->holder, LOCK_TOKEN_SIZE, "%.*s", (int)token, line);
	snprintf(circle->name, NAME, "%.*s", token < length ? (int)(length - token - 1) : 0,
		line + token + 1);
	return length + (line[length] == '\n');
}

static bool has_line(const char *lines, const char *text)
{
	size_t length = strlen(text);

	for (; *lines != '\0'; lines += strcspn(lines, "\n") + 1)
		if (strncmp(lines, text, length) == 0 && lines[length] == '\n')
			return true;
	return false;
}

/* A lock that cannot be looked at is in no circle. */
static void look(struct circle *circle, lock_view_taker *see, nanos until)
{
	struct failure unheard;

	if (circle->name[0] != '\0' && clock_now() < until)
		lock_list_look(circle->lister, see, circle, deadline_alone(until), &unheard);
}

/* The wait that closes the circle, by circle->holder: that holds the lock which we wait for. -1:
 * there is none. */
static int find_last(struct circle *circle, nanos until)
{
	for (int i = 0; i < circle->count; i++) {
		const char *line = circle->waits[i].held;
		size_t length;

		circle->at = i;
		for (; (length = read_line(circle, line)) > 0; line += length) {
			if (has_line(circle->holders, circle->holder))
				return i;
			look(circle, see_waiters, until);
		}
	}
	return -1;
}

static int find(struct circle *circle, const struct lock_circles *own)
{
	char *const names[] = {circle->name};
	const struct lock_query query = {
		.prefix = own->prefix, .patterns = names, .pattern_count = 1, .exact = true};
	nanos until = clock_now() + PATIENCE;
	struct failure unheard;
	int last = -1;

	circle->lister = lock_list_open(own->server, &query, &unheard);
	if (!circle->lister)
		return -1;
	strlcpy(circle->name, own->name, NAME);
	look(circle, see_own, until);
	if (circle->waits[0].since != 0)
		last = find_last(circle, until);
	lock_list_close(circle->lister);
	return last;
}

/* A number that only this circle has; not 0. */
static uint64_t number_of(const struct circle *circle, int last)
{
	uint64_t sum = hash_text(HASH_BASIS, circle->holder);

	for (int i = last; i > 0; i = circle->waits[i].behind)
		sum = hash_text(sum, circle->waits[i].token);
	return sum | 1;
}

/* "a is held by web3:77, which waits for b, which is held by ...". Words that do not fit are left
 * out. */
static bool describe(const struct circle *circle, int last, struct failure *failure)
{
	const char *holder = circle->holder;
	char path[296];
	size_t used = (size_t)snprintf(path, sizeof(path), "%." SHOWN "s", circle->waits[0].name);

	for (int i = last; i > 0 && used < sizeof(path); i = circle->waits[i].behind) {
		const char *random = strrchr(holder, ':');

		used += (size_t)snprintf(path + used, sizeof(path) - used,
			" is held by %.*s, which waits for %." SHOWN "s, which",
			(int)(random ? random - holder : 0), holder, circle->waits[i].name);
		holder = circle->waits[i].holder;
	}
	return failure_set(failure, EXIT_DEADLOCK,
		"waiting would deadlock: %s is held by a dlock around this one; take these locks "
		"in one order everywhere",
		path);
}

/* --- When ------------------------------------------------------------------------------------- */

/* When the next look is due; NANOS_NEVER: we hold nothing else, or the service shows no tokens. */
static nanos find_due(struct lock *lock)
{
	struct lock_circles *own = &lock->circles;

	if (!own->server || !own->held || own->held[0] == '\0')
		return NANOS_NEVER;
	if (own->due == 0)
		own->due = clock_now() + FIRST;
	return own->due;
}

/* Looks, within a second. False with failure EXIT_DEADLOCK, which names the circle: the wait would
 * never end, and we came last. */
static bool look_for_circle(struct lock *lock, struct failure *failure)
{
	struct lock_circles *own = &lock->circles;
	struct circle *circle = calloc(1, sizeof(*circle));
	uint64_t found = 0;
	bool good = true;

	if (circle) {
		int last;

		strlcpy(circle->waits[0].name, own->name, NAME);
		strlcpy(circle->waits[0].held, own->held, HELD);
		strlcpy(circle->waits[0].token, lock->token, LOCK_TOKEN_SIZE);
		circle->count = 1;
		last = find(circle, own);
		found = last < 0 ? 0 : number_of(circle, last);
		if (found != 0 && found == own->seen)
			good = describe(circle, last, failure);
	}
	free(circle);
	own->seen = found;
	own->due = clock_now() + (found != 0 ? CONFIRM : AGAIN);
	return good;
}

enum lock_result lock_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	for (;;) {
		struct deadline limit = deadline;
		nanos due = find_due(lock);
		enum lock_result result;

		if (due < limit.until)
			limit = (struct deadline){.until = due, .cancel_fd = deadline.cancel_fd};
		result = lock->service->wait(lock, limit, failure);
		if (result != LOCK_TIMEOUT || due == NANOS_NEVER || due > deadline.until)
			return result;
		if (clock_now() >= due && !look_for_circle(lock, failure))
			return LOCK_FAILED;
	}
}
