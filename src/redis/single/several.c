/*
 * Several locks of one token on one server: one script takes them (several.lua), and their renewals
 * or releases go in one write. All goes over the connection of the first of them, which gets it
 * from the others if it has none. Whatever is not in order is left to the caller, which goes on one
 * by one: each script finds what the one before has done, and may be repeated.
 */
#include "redis/single/single.h"

#include <stdlib.h>
#include <string.h>

#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/script/script.h"

#define MOST     128 /* in one go, so that no other client waits for more than some milliseconds */
#define COMMON   20  /* words of a call beside those of each lock */
#define PER_LOCK 3

static struct single *single_of(const struct lock_part *part)
{
	return (struct single *)part->lock;
}

/* Nothing is under way on any of their connections, and the first has one if any of them does.
 * False: a request is, to which the answer is open. */
static bool gather(struct lock_part *parts, size_t count)
{
	struct link *first = &single_of(&parts[0])->link;

	for (size_t i = 0; i < count; i++) {
		struct single *single = single_of(&parts[i]);

		wait_stop(single);
		if (single->link.connection && (single->link.waiting || single->link.owes))
			return false;
	}
	for (size_t i = 1; i < count && !first->connection; i++)
		link_lend(first, &single_of(&parts[i])->link);
	return true;
}

/* --- Taking ----------------------------------------------------------------------------------- */

/* Only the first may have been waited for. */
static bool may_take(const struct lock_part *parts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct single *single = single_of(&parts[i]);

		if (single->spent || single->request.replicas > 0 || single->request.detached ||
			(i > 0 && (single->ticket != 0 || single->waiting.seen != 0)))
			return false;
	}
	return true;
}

/* Which of them is to ask for a success: its number from 1; 0: none. */
static size_t asks_for_success(const struct lock_part *parts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct single *single = single_of(&parts[i]);

		if (single->request.cooldown_ms > 0 || single->once[0] != '\0')
			return i + 1;
	}
	return 0;
}

static void begin_take(const struct lock_part *parts, size_t count, struct call *call)
{
	size_t number = asks_for_success(parts, count);
	const struct single *asking = single_of(&parts[number == 0 ? 0 : number - 1]);
	struct single *first = single_of(&parts[0]);

	call_add_number(call, (int64_t)count);
	for (size_t i = 0; i < count; i++)
		call_add(call, single_of(&parts[i])->keys.lock);
	call_add(call, first->lock.token);
	single_add_wish(first, call, asking);
	call_add_number(call, first->request.settle_ms > 0 ? single_settle(&first->request) : 0);
	call_add_number(call, (int64_t)number);
	for (size_t i = 0; i < count; i++) {
		call_add(call, single_of(&parts[i])->keys.head);
		call_add(call, single_of(&parts[i])->keys.tail);
	}
}

/* How many have an answer. The connection is then the last one's, which may have to wait. */
static size_t read_take(struct lock_part *parts, size_t count, const struct reply *reply)
{
	struct link *link = &single_of(&parts[0])->link;
	size_t answered = reply_count(reply) < count ? reply_count(reply) : count;

	for (size_t i = 0; i < answered; i++)
		single_read_take(single_of(&parts[i]), link, reply_at(reply, i), parts[i].answer);
	for (size_t i = answered; answered > 0 && i < count; i++)
		parts[i].asked = parts[i].lock->asked = false;
	if (answered > 1)
		link_lend(&single_of(&parts[answered - 1])->link, link);
	return answered;
}

/* The server granted though it refused the greeting. Such a grant must not stay. */
static void take_back(struct lock_part *parts, size_t count, struct deadline deadline)
{
	static struct lock_answer unheard; /* large, and seldom needed */
	struct link *link = &single_of(&parts[0])->link;

	link->handshake.refusal.code = EXIT_DONE;
	for (size_t i = count; i-- > 0;) {
		if (i > 0)
			link_lend(&single_of(&parts[i])->link, link);
		single_release(parts[i].lock, NULL, deadline, &unheard);
		link = &single_of(&parts[i])->link;
	}
	link_drop(link);
}

/* No answer that counts. Out of time is one for the first of them. Else it is tried again for each
 * by itself, which finds what was granted, and says what is wrong. */
static size_t explain(struct lock_part *parts, enum io_result io, struct deadline deadline)
{
	if (io != IO_TIMEOUT && io != IO_CANCELLED)
		return 0;
	parts[0].answer->result = single_result(io, deadline);
	return 1;
}

static size_t take(struct lock_part *parts, size_t count, struct call *call, bool *sent,
	struct deadline deadline)
{
	struct single *first = single_of(&parts[0]);
	struct deadline limit = single_try(first, deadline);
	struct failure *failure = &parts[0].answer->failure;
	struct reply *reply;
	enum io_result io;
	size_t answered;

	begin_take(parts, count, call);
	io = link_send(&first->link, call, limit, failure);
	if (io != IO_OK) {
		parts[0].answer->result = single_result(io, deadline);
		return 1;
	}
	*sent = true;
	for (size_t i = 0; i < count; i++)
		parts[i].asked = parts[i].lock->asked = true;
	io = link_receive(&first->link, call, &reply, limit, failure);
	if (first->link.landed)
		take_back(parts, count, limit);
	if (io != IO_OK)
		return explain(parts, io, deadline);
	answered = read_take(parts, count, reply);
	reply_free(reply);
	return answered;
}

/* MOST of them at the most. */
static size_t take_some(struct lock_part *parts, size_t count, bool *sent, struct deadline deadline)
{
	size_t room = COMMON + PER_LOCK * count, answered = 0;
	const char **words = malloc(room * sizeof(*words));
	size_t *lengths = malloc(room * sizeof(*lengths));
	struct call call;

	for (size_t i = 0; i < count; i++) {
		memset(parts[i].answer, 0, sizeof(*parts[i].answer));
		single_of(&parts[i])->handed.count = 0;
	}
	if (words && lengths) {
		call_begin_large(&call, &script_several, words, lengths);
		answered = take(parts, count, &call, sent, deadline);
	}
	free(words);
	free(lengths);
	return answered;
}

static bool is_had(const struct lock_part *part)
{
	return part->answer->result == LOCK_GRANTED;
}

size_t single_take_several(
	struct lock_part *parts, size_t count, bool *sent, struct deadline deadline)
{
	size_t done = 0, some, answered;

	if (count < 2 || !may_take(parts, count) || !gather(parts, count))
		return 0;
	do {
		some = count - done < MOST ? count - done : MOST;
		if (done > 0)
			link_lend(
				&single_of(&parts[done])->link, &single_of(&parts[done - 1])->link);
		answered = take_some(parts + done, some, sent, deadline);
		done += answered;
	} while (answered == some && done < count && is_had(&parts[done - 1]));
	return done;
}

/* --- Renewing and releasing ------------------------------------------------------------------- */

struct round {
	struct lock_part *parts;
	char who[OWNER_RECORD_SIZE];
};

static struct link *link_of(const struct round *round)
{
	return &single_of(&round->parts[0])->link;
}

static void begin_renewal(void *context, size_t which, struct call *call)
{
	struct round *round = context;

	single_begin_renewal(single_of(&round->parts[which]), call, round->who);
}

static void read_renewal(void *context, size_t which, const struct reply *reply)
{
	const struct round *round = context;
	struct lock_part *part = &round->parts[which];

	single_read_renewal(single_of(part), link_of(round), reply, part->answer);
	part->done = part->answer->result != LOCK_FAILED;
}

static void begin_release(void *context, size_t which, struct call *call)
{
	static const struct release_terms plain;
	const struct round *round = context;
	const struct lock_part *part = &round->parts[which];

	single_begin_release(
		single_of(part), call, part->release_terms ? part->release_terms : &plain);
}

static void read_release(void *context, size_t which, const struct reply *reply)
{
	const struct round *round = context;
	struct lock_part *part = &round->parts[which];

	part->done = single_read_release(single_of(part), reply, part->answer);
	if (part->done)
		single_forget(single_of(part));
}

static void call_round(
	struct lock_part *parts, size_t count, struct link_calls calls, struct deadline deadline)
{
	struct round round = {.parts = parts};
	struct failure unheard;

	for (size_t i = 0; i < count; i++) {
		memset(parts[i].answer, 0, sizeof(*parts[i].answer));
		parts[i].done = false;
	}
	calls.count = count;
	calls.context = &round;
	if (count > 1 && gather(parts, count))
		link_call_several(link_of(&round), &calls, deadline, &unheard);
}

/* MOST at a time. */
static void call_all(
	struct lock_part *parts, size_t count, struct link_calls calls, struct deadline deadline)
{
	for (size_t i = 0; i < count; i += MOST) {
		if (i > 0)
			link_lend(&single_of(&parts[i])->link, &single_of(&parts[i - MOST])->link);
		call_round(parts + i, count - i < MOST ? count - i : MOST, calls, deadline);
	}
}

void single_renew_several(struct lock_part *parts, size_t count, struct deadline deadline)
{
	call_all(parts, count, (struct link_calls){.begin = begin_renewal, .read = read_renewal},
		deadline);
}

void single_release_several(struct lock_part *parts, size_t count, struct deadline deadline)
{
	for (size_t i = 0; i < count; i++)
		single_of(&parts[i])->handed.count = 0;
	call_all(parts, count, (struct link_calls){.begin = begin_release, .read = read_release},
		deadline);
}
