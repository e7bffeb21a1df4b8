/*
 * All but the last are taken in the process that asks; only the request for the last may be
 * answered in a child (lock_answer), and with it the child gets what is held. Where one before the
 * last is not to be had, its answer is put by, and lock_answer repeats it.
 */
#include "lock_set.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock_set_own.h"
#include "server.h"

static struct member *last_of(struct lock_set *set)
{
	return &set->members[set->count - 1];
}

/* --- Taking ----------------------------------------------------------------------------------- */

/* Whoever waits for the next one waits under those that are held. */
static void note_held(struct lock_set *set)
{
	size_t used = strlcpy(set->held, set->outer_held ? set->outer_held : "", SET_HELD);

	for (size_t i = 0; i < set->next && used < SET_HELD; i++)
		if (member_is_ours(&set->members[i]))
			used += (size_t)snprintf(set->held + used, SET_HELD - used, "%s %s\n",
				lock_token(set->members[i].lock), set->members[i].name);
}

static enum lock_result ask_member(struct lock_set *set, struct patience patience)
{
	struct member *member = &set->members[set->next];

	note_held(set);
	member->asked = true;
	member->within = false;
	return lock_ask(member->lock, patience, &member->answer.failure);
}

/* Of a member before the last: asks, and waits for the answer. */
static enum lock_result take_member(struct lock_set *set, struct patience patience)
{
	struct member *member = &set->members[set->next];
	enum lock_result result = LOCK_LOST;

	while (result == LOCK_LOST) { /* that attempt was ended, the next is another */
		result = ask_member(set, patience);
		if (result != LOCK_GRANTED)
			return member->answer.result = result;
		lock_answer(member->lock, patience, &member->answer);
		result = member->answer.result;
	}
	return result;
}

/* Once something is held, or somebody waits in a queue, the caller has something to take back: so
 * he is to learn of it as an answer. */
static enum lock_result put_by(struct lock_set *set, struct failure *failure)
{
	struct lock_answer *answer = &set->members[set->next].answer;

	if (set->next == 0 && answer->result != LOCK_BUSY) {
		*failure = answer->failure;
		return answer->result;
	}
	set->put_by = true;
	return LOCK_GRANTED;
}

static enum lock_result set_ask(
	struct lock *lock, struct patience patience, struct failure *failure)
{
	struct lock_set *set = (struct lock_set *)lock;
	enum lock_result result;

	set->put_by = false;
	set_refresh(set, patience);
	for (; set->next + 1 < set->count; set->next++) {
		struct member *member = &set->members[set->next];

		result = take_member(set, patience);
		if (result != LOCK_GRANTED && result != LOCK_WITHIN)
			return put_by(set, failure);
		member_note_grant(member);
	}
	result = ask_member(set, patience);
	if (result == LOCK_GRANTED)
		return result;
	last_of(set)->answer.result = result;
	return put_by(set, failure);
}

/* The answer for them all, from that of the last. */
static void complete(struct lock_set *set, struct lock_answer *answer)
{
	const struct member *named = &set->members[set->named];

	set->next = set->count;
	answer->asked_at = set_oldest(set);
	answer->fence = named->fence;
	answer->result = LOCK_GRANTED;
	if (answer->asked_at == NANOS_NEVER) {
		answer->result = LOCK_WITHIN;
		answer->asked_at = last_of(set)->asked_at;
		strlcpy(answer->holder_token, named->token, sizeof(answer->holder_token));
	}
}

static void set_answer(struct lock *lock, struct patience patience, struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;
	struct member *member = &set->members[set->next];

	if (!set->put_by)
		lock_answer(member->lock, patience, &member->answer);
	*answer = member->answer;
	answer->name = member->name;
	if (answer->result != LOCK_GRANTED && answer->result != LOCK_WITHIN)
		return;
	member_note_grant(member);
	complete(set, answer);
}

static void set_learn(struct lock *lock, const struct lock_answer *answer)
{
	struct lock_set *set = (struct lock_set *)lock;
	struct member *last = last_of(set);

	if (set->put_by) {
		set->put_by = false;
		return;
	}
	if (answer->result == LOCK_TIMEOUT) {
		/* Granted too late, perhaps, and given back with all the others. */
		for (size_t i = 0; i < set->count; i++)
			lock_learn(set->members[i].lock, answer);
		set->next = 0;
		return;
	}
	last->answer = *answer;
	lock_learn(last->lock, answer);
	if (answer->result == LOCK_GRANTED)
		set->next = set->count;
}

static enum lock_result set_listen(
	struct lock *lock, struct patience patience, struct failure *failure)
{
	struct lock_set *set = (struct lock_set *)lock;

	for (;;) {
		struct member *member = &set->members[set->next];
		struct patience limit = patience;
		nanos due = set_refresh_due(set);
		enum lock_result result;

		if (due < limit.until)
			limit.until = due;
		result = lock_listen(member->lock, limit, failure);
		if (result != LOCK_TIMEOUT || clock_now() >= patience.until)
			return result;
		set_refresh(set, patience);
		if (member != &set->members[set->next])
			return LOCK_GRANTED;
	}
}

/* --- The rest --------------------------------------------------------------------------------- */

static void set_reset(struct lock *lock)
{
	struct lock_set *set = (struct lock_set *)lock;

	for (size_t i = 0; i < set->count; i++)
		lock_reset(set->members[i].lock);
}

/* All go to one server: when it goes, they drop together. */
static int set_watch_fd(const struct lock *lock)
{
	const struct lock_set *set = (const struct lock_set *)lock;

	for (size_t i = 0; i < set->count; i++)
		if (member_is_ours(&set->members[i]))
			return lock_watch_fd(set->members[i].lock);
	return -1;
}

static const char *set_token(const struct lock *lock)
{
	const struct lock_set *set = (const struct lock_set *)lock;
	const struct member *named = &set->members[set->named];

	return named->within ? named->token : lock_token(named->lock);
}

static const char *set_fences(struct lock *lock)
{
	struct lock_set *set = (struct lock_set *)lock;
	size_t size = 1, used = 0;

	for (size_t i = 0; i < set->count; i++)
		size += strlen(set->members[i].name) + 24;
	free(set->fences);
	set->fences = malloc(size);
	if (!set->fences)
		return "";
	for (size_t i = 0; i < set->count; i++)
		used += (size_t)snprintf(set->fences + used, size - used, "%s%s=%" PRIu64,
			i ? " " : "", set->members[i].name, set->members[i].fence);
	return set->fences;
}

static void set_close(struct lock *lock)
{
	struct lock_set *set = (struct lock_set *)lock;

	for (size_t i = 0; i < set->count; i++)
		if (set->members[i].lock)
			lock_close(set->members[i].lock);
	free(set->fences);
	free(set);
}

static const struct backend set_backend = {
	.close = set_close,
	.ask = set_ask,
	.answer = set_answer,
	.learn = set_learn,
	.listen = set_listen,
	.renew = set_renew,
	.release = set_release,
	.verify = set_verify,
	.reset = set_reset,
	.watch_fd = set_watch_fd,
	.token = set_token,
	.fences = set_fences,
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

static bool open_members(struct lock_set *set, const struct server *server,
	const struct lock_request *request, struct failure *failure)
{
	for (size_t i = 0; i < set->count; i++) {
		struct lock_request own = *request;
		struct member *member = &set->members[i];

		own.name = member->name;
		own.held = set->held;
		if (strcmp(member->name, request->name) != 0) {
			own.cooldown_ms = 0;
			own.once = NULL;
		}
		/* One token for all: DLOCK_TOKEN is one, and whoever runs under it has them all. */
		own.token = i > 0 ? lock_token(set->members[0].lock) : request->token;
		member->lock = lock_open(server, &own, failure);
		if (!member->lock)
			return false;
		if (strcmp(member->name, request->name) == 0)
			set->named = i;
	}
	return true;
}

struct lock *lock_set_open(const struct server *server, const struct lock_request *request,
	const char *const *also, size_t also_count, struct failure *failure)
{
	struct lock_set *set = calloc(1, sizeof(*set) + (also_count + 1) * sizeof(struct member));

	if (!set) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	set->lock.backend = &set_backend;
	set->renew_every = request->ttl_ms * NANOS_PER_MS / 3;
	set->outer_held = request->held;
	set->count = also_count + 1;
	set->members[0].name = request->name;
	for (size_t i = 0; i < also_count; i++)
		set->members[i + 1].name = also[i];
	qsort(set->members, set->count, sizeof(struct member), compare_names);
	remove_doubles(set);
	if (server->scheme == SERVER_QUORUM)
		failure_set(failure, EXIT_USAGE,
			"--also needs one server: a quorum has no order of waiting");
	else if (open_members(set, server, request, failure))
		return &set->lock;
	set_close(&set->lock);
	return NULL;
}
