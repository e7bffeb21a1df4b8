/*
 * Waiting for a lock, and circles of waits: our holder waits in turn, and so on, for a lock that is
 * held around us. A waiter that has waited for a while looks at all locks of the service
 * (lock_list.h), and the last that joined a circle gives up. Each looks after it is on record as a
 * waiter, so the one that completes a circle sees it.
 */
#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/deadlock.h"
#include "lock/lock_list.h"
#include "lock/service.h"

#define FIRST    NANOS_PER_SEC        /* most waits are over by then */
#define CONFIRM  (300 * NANOS_PER_MS) /* the locks are not seen at one moment */
#define AGAIN    (20 * NANOS_PER_SEC)
#define PATIENCE NANOS_PER_SEC
#define TOKENS   (8 * LOCK_TOKEN_SIZE) /* of holders that count */
#define HELD     2048
#define NAME     641 /* with a prefix, and the NUL */
#define MOST     256 /* waits that are looked at */

/* One waiter: the lock and the holders that it waits for, and what it holds itself. */
struct wait_for {
	char name[NAME];
	char holders[TOKENS]; /* lines; of permits none, as any may come free */
	char held[HELD];
	int64_t since;
	bool seen;
};

struct circle {
	const char *token, *held; /* ours */
	int64_t since;            /* ours; 0: we are not on record */
	char holders[TOKENS];
	int count, length;
	const struct wait_for *path[MOST];
	const char *through[MOST]; /* by which token each is reached */
	struct wait_for waits[MOST];
};

/* --- What there is ---------------------------------------------------------------------------- */

static void list_holders(const struct lock_view *view, char lines[static TOKENS])
{
	lines[0] = '\0';
	for (size_t i = 0; i < view->holder_count; i++) {
		const struct lock_view_owner *holder = &view->holders[i];

		if (holder->mode == LOCK_PERMITS || holder->detached || holder->ttl_ms >= 0 ||
			!holder->token)
			continue;
		strlcat(lines, holder->token, TOKENS);
		strlcat(lines, "\n", TOKENS);
	}
}

static void add_waits(const struct lock_view *view, void *context)
{
	struct circle *circle = context;
	char holders[TOKENS];

	list_holders(view, holders);
	for (size_t i = 0; i < view->waiter_count && circle->count < MOST; i++) {
		const struct lock_view_owner *waiter = &view->waiters[i];
		struct wait_for *wait = &circle->waits[circle->count];

		if (waiter->token && strcmp(waiter->token, circle->token) == 0) {
			circle->since = waiter->since_us;
			strcpy(circle->holders, holders);
		} else if (waiter->held && waiter->held[0] != '\0') {
			strlcpy(wait->name, view->name, sizeof(wait->name));
			strcpy(wait->holders, holders);
			strlcpy(wait->held, waiter->held, sizeof(wait->held));
			wait->since = waiter->since_us;
			circle->count++;
		}
	}
}

/* A lock that cannot be looked at is in no circle. */
static void look_at_all(const struct server *server, struct circle *circle)
{
	const struct lock_query query = {.prefix = ""};
	struct failure unheard;
	struct lock_lister *lister = lock_list_open(server, &query, &unheard);

	if (!lister)
		return;
	lock_list_look(lister, add_waits, circle, deadline_alone(clock_now() + PATIENCE), &unheard);
	lock_list_close(lister);
}

/* --- The circle ------------------------------------------------------------------------------- */

/* Whether the first token of the lines stands first in a line of held. */
static bool holds(const char *held, const char *token)
{
	size_t length = strcspn(token, "\n");

	for (const char *line = held; *line != '\0';
		line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, token, length) == 0 && line[length] == ' ')
			return true;
	return false;
}

/* Whether those holders lead back to us: circle->path is the way then. */
static bool leads_back(struct circle *circle, const char *holders)
{
	const char *token = holders;

	for (; *token != '\0'; token += strcspn(token, "\n") + 1) {
		circle->through[circle->length] = token;
		if (holds(circle->held, token))
			return true;
		for (int i = 0; i < circle->count; i++) {
			struct wait_for *wait = &circle->waits[i];

			if (wait->seen || !holds(wait->held, token))
				continue;
			wait->seen = true;
			circle->path[circle->length++] = wait;
			if (circle->length < MOST && leads_back(circle, wait->holders))
				return true;
			circle->through[--circle->length] = token;
		}
	}
	return false;
}

/* The circle that we are in and came last of, as a number that only this one has; 0: there is none.
 */
static int64_t find_circle(const struct server *server, struct circle *circle)
{
	int64_t sum;

	look_at_all(server, circle);
	if (circle->since == 0 || !leads_back(circle, circle->holders))
		return 0;
	sum = circle->since;
	for (int i = 0; i < circle->length; i++) {
		if (circle->path[i]->since > circle->since)
			return 0;
		sum += (i + 2) * circle->path[i]->since;
	}
	return sum;
}

static bool describe(const char *name, const struct circle *circle, struct failure *failure)
{
	struct deadlock_path path;

	deadlock_path_begin(&path, name);
	for (int i = 0; i < circle->length; i++)
		deadlock_path_add(&path, circle->through[i], circle->path[i]->name);
	return deadlock_by_circle(path.text, failure);
}

static nanos due_of(struct lock_circles *circles)
{
	if (!circles->server || !circles->held || circles->held[0] == '\0')
		return NANOS_NEVER;
	if (circles->due == 0)
		circles->due = clock_now() + FIRST;
	return circles->due;
}

/* False with failure: the wait would never end. */
static bool look_for_circle(struct lock *lock, struct failure *failure)
{
	struct lock_circles *circles = &lock->circles;
	struct circle *circle = calloc(1, sizeof(*circle));
	int64_t found = 0;
	bool good = true;

	if (circle) {
		circle->token = lock->token;
		circle->held = circles->held;
		found = find_circle(circles->server, circle);
		if (found != 0 && found == circles->seen)
			good = describe(circles->name, circle, failure);
	}
	free(circle);
	circles->seen = found;
	circles->due = clock_now() + (found != 0 ? CONFIRM : AGAIN);
	return good;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

enum lock_result lock_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	for (;;) {
		struct deadline limit = deadline;
		nanos due = due_of(&lock->circles);
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
