/*
 * Whether a wait would never end. The waiter runs under a lock (struct lock_request.held). The
 * holder of what it waits for waits for that lock in turn, if only by way of others. A waiter looks
 * after a second. It publishes what it waits for, and walks from lock to holder, and from holder to
 * the lock that this one waits for. The last waiter to join a circle asks the others twice for a
 * proof that they live and still wait; then it leaves. So no waiter leaves because of a dead one,
 * and only one leaves a circle.
 */
#include "redis/single/single.h"

#include <bsd/string.h>
#include <stdio.h>
#include <string.h>

#include "lock/deadlock.h"
#include "redis/link/connection.h"
#include "redis/script/script.h"

#define FIRST     NANOS_PER_SEC        /* most waits are over by then */
#define AGAIN     (20 * NANOS_PER_SEC) /* within a record's life: LIFE in circle.lua */
#define CONFIRM   (300 * NANOS_PER_MS) /* for proofs to come */
#define LIMIT     (500 * NANOS_PER_MS) /* for the server */
#define CONFIRMED 2
#define HELD_MOST 16

void deadlock_begin(struct single *single)
{
	struct deadlock *deadlock = &single->waiting.deadlock;
	const char *held = single->request.held;

	if (!held || *held == '\0')
		deadlock->look_at = NANOS_NEVER;
	else if (deadlock->look_at == 0 || (deadlock->look_at == NANOS_NEVER && !deadlock->unable))
		deadlock->look_at = clock_now() + FIRST;
}

nanos deadlock_due(const struct deadlock *deadlock)
{
	return deadlock->proof[0] != '\0' ? 0 : deadlock->look_at;
}

/* The keys to publish under, from lines "TOKEN NAME". How many. */
static size_t make_keys(const struct single *single, struct keys keys[static HELD_MOST],
	char tokens[static HELD_MOST][LOCK_TOKEN_SIZE])
{
	const char *line = single->request.held;
	size_t count = 0;

	while (*line != '\0' && count < HELD_MOST) {
		char text[LOCK_TOKEN_SIZE + 520];
		size_t length = strcspn(line, "\n");
		char *name;

		snprintf(text, sizeof(text), "%.*s", (int)length, line);
		line += length + (line[length] == '\n');
		name = strchr(text, ' ');
		if (!name)
			continue;
		*name++ = '\0';
		strlcpy(tokens[count], text, LOCK_TOKEN_SIZE);
		if (!keys_make(&keys[count], single->request.prefix, name, text))
			break;
		count++;
	}
	return count;
}

static enum io_result ask(struct single *single, const char *next, struct reply **reply)
{
	struct deadlock *deadlock = &single->waiting.deadlock;
	struct keys keys[HELD_MOST];
	char tokens[HELD_MOST][LOCK_TOKEN_SIZE];
	size_t count = make_keys(single, keys, tokens);
	struct deadline deadline = {.until = clock_now() + LIMIT, .cancel_fd = -1};
	struct failure unheard;
	struct call call;
	enum io_result io;

	call_begin(&call, &script_circle, &single->keys, single->lock.token);
	call_add_number(&call, (int64_t)single->ticket);
	call_add(&call, deadlock->proof);
	call_add(&call, deadlock->asked);
	call_add(&call, next);
	for (size_t i = 0; i < count; i++) {
		call_add(&call, keys[i].waits);
		call_add(&call, tokens[i]);
	}
	io = link_call(&single->link, &call, reply, deadline, &unheard);
	for (size_t i = 0; i < count; i++)
		keys_free(&keys[i]);
	return io;
}

static void describe(const struct single *single, const struct reply *list, struct failure *failure)
{
	size_t prefix = strlen(single->request.prefix);
	struct deadlock_path path;

	deadlock_path_begin(&path, single->request.name);
	for (size_t i = 0; i + 1 < reply_count(list); i += 2) {
		const char *holder = reply_text(reply_at(list, i));
		const char *key = reply_text(reply_at(list, i + 1));

		if (!holder || !key || strlen(key) < prefix)
			break;
		deadlock_path_add(&path, holder, key + prefix);
	}
	deadlock_by_circle(path.text, failure);
}

/* A circle in which we are the last: again, until that is certain. */
static enum io_result confirm(
	struct single *single, const char *next, const struct reply *list, struct failure *failure)
{
	struct deadlock *deadlock = &single->waiting.deadlock;

	if (deadlock->asked[0] != '\0' && ++deadlock->confirmed == CONFIRMED) {
		describe(single, list, failure);
		return IO_FAILED;
	}
	strlcpy(deadlock->asked, next, DEADLOCK_PROOF);
	deadlock->look_at = clock_now() + CONFIRM;
	return IO_OK;
}

enum io_result deadlock_look(struct single *single, struct failure *failure)
{
	struct deadlock *deadlock = &single->waiting.deadlock;
	bool only_proves = deadlock->proof[0] != '\0';
	char next[DEADLOCK_PROOF] = "";
	struct reply *reply;
	const char *word;
	enum io_result io;

	if (!only_proves)
		snprintf(next, sizeof(next), "%.32s%u", strrchr(single->lock.token, ':'),
			++deadlock->round); /* its random end */
	io = ask(single, next, &reply);
	deadlock->proof[0] = '\0';
	/* A waiter that asks for proof has seen a circle: we shall see it too. */
	if (!only_proves || deadlock->look_at > clock_now() + FIRST)
		deadlock->look_at = clock_now() + (only_proves ? FIRST : AGAIN);
	if (io == IO_FAILED) {
		deadlock->unable = true;
		deadlock->look_at = NANOS_NEVER;
		return IO_OK;
	}
	/* The server cannot just now: the wait itself will find out whether that is for good. */
	if (io == IO_AGAIN && single->link.connection)
		return IO_OK;
	if (io != IO_OK)
		return IO_CLOSED;
	word = reply_text(reply_at(reply, 0));
	if (word && strcmp(word, "circle") == 0) {
		io = confirm(single, next, reply_at(reply, 1), failure);
	} else if (!only_proves) {
		if (deadlock->asked[0] != '\0') /* not every one has given its proof */
			deadlock->look_at = clock_now() + FIRST;
		deadlock->asked[0] = '\0';
		deadlock->confirmed = 0;
	}
	reply_free(reply);
	return io;
}
