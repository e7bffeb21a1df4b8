/*
 * Waiting in the queue: one connection, blocked in BLPOP on the waiter's own list, where the server
 * keeps each message until it is read. Now and then a look by plain commands, which cost the
 * server a tenth of a script's. Whatever a look finds that is not as it was, the answer is to
 * ask again with the old ticket.
 */
#include "redis/single/single.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "net/server.h"
#include "redis/redis_url.h"
#include "redis/link/connection.h"
#include "redis/script/replies.h"

#define ROOM_EVERY   16   /* one look in so many is for room beside sharers, far behind; even */
#define RANK_MS      50   /* each place gives so long to those before it, once all is late */
#define CLAIM_MS     1005 /* CLAIM in prelude.lua, and a bit */
#define LEASE_LEAST  5000 /* of a series of short BLPOPs, behind a foreign client */
#define FOLLOW_EVERY (3 * NANOS_PER_SEC) /* whether Sentinels name another server */
#define NESTED_MS    1000 /* a waiter that holds something shows it lives: LATE in inspect.lua */
#define LATE         (2 * NANOS_PER_SEC) /* a server that does not end BLPOP in time is gone */

static nanos after_ms(int64_t ms)
{
	return clock_now() + ms * NANOS_PER_MS;
}

static int64_t ms_until(nanos moment)
{
	nanos left = moment == NANOS_NEVER ? NANOS_NEVER / 2 : moment - clock_now();

	return left <= 0 ? 0 : (left - 1) / NANOS_PER_MS + 1;
}

static void record_expiry(struct wait_state *waiting, int64_t left_ms)
{
	waiting->look_at = left_ms < 0 ? NANOS_NEVER : after_ms(left_ms) + REPLIES_LOOK_AFTER;
	if (waiting->foreign || left_ms < 0)
		return;
	waiting->known_until = after_ms(left_ms);
	if (left_ms * NANOS_PER_MS > waiting->span)
		waiting->span = left_ms * NANOS_PER_MS;
	/* A holder renews its lock when a third of the TTL is over. The rest of a claim says
	 * nothing. */
	else if (left_ms > CLAIM_MS && left_ms * NANOS_PER_MS * 3 / 2 < waiting->span)
		waiting->span = left_ms * NANOS_PER_MS * 3 / 2;
}

/* The time that was known was the last holder's. */
static void change_holder(struct wait_state *waiting, const char *token)
{
	if (strncmp(waiting->holder, token, LOCK_TOKEN_SIZE - 1) != 0)
		waiting->span = 0;
	strlcpy(waiting->holder, token, sizeof(waiting->holder));
	waiting->dropped_at = 0;
}

void wait_adopt_answer(struct single *single, const struct lock_answer *answer)
{
	struct wait_state *waiting = &single->waiting;

	waiting->stage = WAIT_REST;
	waiting->lease_until = 0;
	/* The waiter that we handed it to may be dead, and no other may look. */
	waiting->told_ms = replies_own(answer)->handed_on ? CLAIM_MS : -1;
	waiting->rank = answer->rank;
	waiting->foreign = answer->foreign;
	/* While we are held off, what was known of the holder stays. */
	if (answer->holder_token[0] != '\0') {
		change_holder(waiting, answer->holder_token);
		waiting->seen = answer->fence;
		record_expiry(waiting, answer->free_in_ms);
	}
	waiting->look_at = answer->look_at;
	waiting->settled_at = after_ms(answer->settling_ms) + REPLIES_LOOK_AFTER;
}

/* Since the last look the holder will have renewed its lock: so it may hold for as long again as it
 * was seen to, from the moment at which the server may have lost its memory. */
int64_t wait_hold_off(struct single *single)
{
	struct wait_state *waiting = &single->waiting;
	nanos until = waiting->known_until;

	if (waiting->seen == 0 || waiting->foreign)
		return 0;
	if (!single->link.connection && waiting->dropped_at == 0)
		waiting->dropped_at = clock_now();
	if (waiting->dropped_at != 0 && waiting->dropped_at + waiting->span > until)
		until = waiting->dropped_at + waiting->span;
	return ms_until(until);
}

/* Behind a BLPOP every other request would wait until that ends. */
void wait_stop(struct single *single)
{
	if (single->waiting.stage != WAIT_REST)
		link_drop(&single->link);
	single->waiting.stage = WAIT_REST;
	single->waiting.moved = false;
}

static bool append(struct single *single, const char *const *words)
{
	return connection_append_words(single->link.connection, words);
}

static enum io_result flush(struct single *single, bool appended, enum wait_stage next,
	struct deadline deadline, struct failure *failure)
{
	single->link.waiting = true;
	single->waiting.stage = next;
	if (!appended) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return IO_FAILED;
	}
	return connection_flush(single->link.connection, deadline, failure);
}

static int64_t listen_ms(const struct wait_state *waiting)
{
	int64_t left = ms_until(waiting->look_at);

	if (waiting->told_ms >= 0)
		return number_least(waiting->told_ms, WAIT_LISTEN_MS);
	if (waiting->rank == 0)
		return number_least(left, waiting->foreign ? WAIT_FOREIGN_MS : WAIT_LISTEN_MS);
	/* The holder may be dead, and all that are ahead as well. */
	return number_least(
		left + waiting->rank * RANK_MS, WAIT_LISTEN_MS + clock_jitter(WAIT_LISTEN_MORE));
}

/* First behind a foreign client: looks every second, so as little as will do, until its lock was to
 * expire: it may have extended it. */
static bool polls(const struct wait_state *waiting)
{
	return waiting->rank == 0 && waiting->foreign && clock_now() < waiting->look_at;
}

/* A holder that releases a share says so to the first waiter. But if all waiters ahead of us are
 * dead, a dead one was told. To find out takes a whole request, so a waiter that is next does it
 * now and then, the others seldom. */
static bool looks_for_room(struct single *single)
{
	struct wait_state *waiting = &single->waiting;

	if (single->request.mode == LOCK_EXCLUSIVE)
		return false;
	return clock_now() >= waiting->look_at ||
	       ++waiting->looks % (waiting->rank <= 1 ? 2 : ROOM_EVERY) == 0;
}

static enum io_result look(struct single *single, struct deadline deadline, struct failure *failure)
{
	const struct keys *keys = &single->keys;
	bool done = append(single, WORDS("GET", keys->lock));

	single->waiting.brief = polls(&single->waiting);
	single->waiting.for_room = looks_for_room(single);
	if (!single->waiting.brief)
		done = done && append(single, WORDS("PTTL", keys->lock)) &&
		       append(single, WORDS("ZRANK", keys->queue, single->lock.token));
	return flush(single, done, WAIT_HOLDER, deadline, failure);
}

/* Redis 5 takes whole seconds only: as many as there are; of less than one we do not await the end.
 * Returns how long we shall listen. */
static int64_t write_timeout(struct wait_state *waiting, int64_t ms, char *text, size_t size)
{
	waiting->cut = waiting->in_seconds && ms < 1000;
	if (!waiting->in_seconds) {
		snprintf(text, size, "%" PRId64 ".%03" PRId64, ms / 1000, ms % 1000);
		return ms;
	}
	snprintf(text, size, "%" PRId64, waiting->cut ? 1 : ms / 1000);
	return waiting->cut ? ms : ms - ms % 1000;
}

/* The lease says how long we shall listen. It goes in the same write: else a waiter might seem to
 * listen when it does not, and be passed over though it lives (verify.lua). Behind a foreign client
 * no holder hands the lock on, and the lease may say more than that. */
static enum io_result listen(
	struct single *single, struct deadline deadline, struct failure *failure)
{
	struct wait_state *waiting = &single->waiting;
	const char *held = single->request.held;
	int64_t ms = listen_ms(waiting);
	int64_t lease;
	char timeout[32], expiry[32];
	bool done = true;

	if (held && *held != '\0')
		ms = number_least(ms, NESTED_MS);
	/* A wait that goes on after this deadline is to find BLPOP as it was. */
	if (!waiting->in_seconds)
		ms = number_least(ms, ms_until(deadline.until));
	waiting->told_ms = -1;
	if (ms == 0)
		return look(single, deadline, failure);
	ms = write_timeout(waiting, ms, timeout, sizeof(timeout));
	lease = (polls(waiting) && ms < LEASE_LEAST ? LEASE_LEAST : ms) + WAIT_LEASE_MS;
	snprintf(expiry, sizeof(expiry), "%" PRId64, lease);
	waiting->listen_until = after_ms(ms);
	if (waiting->lease_until >= after_ms(ms + WAIT_LEASE_MS)) {
		done = append(single, WORDS("BLPOP", single->keys.wake, timeout));
		return flush(single, done, WAIT_MESSAGE, deadline, failure);
	}
	waiting->lease_until = after_ms(lease);
	done = append(single, WORDS("PEXPIRE", single->keys.who, expiry)) &&
	       append(single, WORDS("BLPOP", single->keys.wake, timeout));
	return flush(single, done, WAIT_LEASE, deadline, failure);
}

/* The next step after a reply; IO_CLOSED: drop the connection and ask again. */
static enum io_result handle_lease(struct single *single, const struct reply *reply)
{
	/* The record is gone: we were passed over. */
	if (reply_integer(reply) == 0)
		return IO_CLOSED;
	single->waiting.stage = WAIT_MESSAGE;
	return IO_OK;
}

static enum io_result handle_holder(struct single *single, const struct reply *reply)
{
	struct wait_state *waiting = &single->waiting;
	const char *holder = reply_text(reply);
	bool shared = holder && strncmp(holder, "dlock:", 6) == 0;

	if (holder && *holder == '\0')
		holder = REPLIES_EMPTY;
	if (shared)
		waiting->moved = waiting->for_room;
	else
		waiting->moved =
			!holder || (waiting->rank == 0 && strncmp(holder, waiting->holder,
								  LOCK_TOKEN_SIZE - 1) != 0);
	if (holder && !shared && !waiting->moved)
		change_holder(waiting, holder);
	waiting->stage = waiting->brief ? WAIT_REST : WAIT_EXPIRY;
	return IO_OK;
}

static enum io_result handle_expiry(struct single *single, const struct reply *reply)
{
	struct wait_state *waiting = &single->waiting;
	int64_t left = reply_within(reply, -2, REPLIES_MS_MOST);
	nanos before = waiting->look_at;

	if (left == -2) /* there is no such key */
		waiting->moved = true;
	else
		record_expiry(waiting, left);
	/* The key lives as long as the last share, but the first permit to run out makes room; so
	 * does the end of --settle. */
	if (single->request.mode != LOCK_EXCLUSIVE && waiting->rank <= 1 && before > clock_now() &&
		before < waiting->look_at)
		waiting->look_at = before;
	waiting->stage = WAIT_PLACE;
	return IO_OK;
}

static enum io_result handle_place(struct single *single, const struct reply *reply)
{
	struct wait_state *waiting = &single->waiting;
	int rank = (int)reply_within(reply, 0, REPLIES_RANK_MOST);

	/* Not in the queue: passed over, or the lock is ours and the message was lost. First only
	 * now: the holder and its expiry are to be watched from here on. */
	if (!reply_is_integer(reply) || (rank == 0 && waiting->rank != 0) ||
		(rank != waiting->rank && single->request.watched))
		waiting->moved = true;
	waiting->rank = rank;
	waiting->stage = WAIT_REST;
	return IO_OK;
}

static enum io_result (*const handlers[])(struct single *single, const struct reply *reply) = {
	[WAIT_LEASE] = handle_lease,
	[WAIT_HOLDER] = handle_holder,
	[WAIT_EXPIRY] = handle_expiry,
	[WAIT_PLACE] = handle_place,
};

/* "go", "look N", or nothing in time. */
static enum io_result handle_message(struct single *single, const struct reply *reply,
	struct deadline deadline, struct failure *failure)
{
	struct wait_state *waiting = &single->waiting;
	const char *message = reply_text(reply_at(reply, 1));

	waiting->stage = WAIT_REST;
	waiting->moved = false;
	if (!message)
		return look(single, deadline, failure);
	waiting->lease_until = 0; /* the sender has shortened it */
	if (strncmp(message, "look ", 5) == 0) {
		waiting->told_ms = strtoll(message + 5, NULL, 10);
		waiting->looks = ROOM_EVERY - 1; /* the sender of that knows more */
	} else {
		waiting->moved = true;
	}
	if (waiting->told_ms < -1)
		waiting->told_ms = -1;
	return IO_OK;
}

/* Redis 5 refuses parts of a second: the same again, in whole ones. */
static bool is_too_fine(const struct wait_state *waiting, const char *error)
{
	return waiting->stage == WAIT_MESSAGE && !waiting->in_seconds &&
	       strstr(error, "timeout is not an integer") != NULL;
}

static enum io_result listen_again(struct wait_state *waiting)
{
	waiting->in_seconds = true;
	waiting->told_ms = ms_until(waiting->listen_until);
	waiting->stage = WAIT_REST;
	return IO_OK;
}

/* Until when the reply is waited for. */
static nanos late_at(const struct wait_state *waiting)
{
	if (waiting->stage != WAIT_MESSAGE)
		return clock_now() + LATE;
	return waiting->listen_until + (waiting->cut ? 0 : LATE);
}

static enum io_result handle_error(
	struct single *single, const char *error, struct failure *failure)
{
	if (is_too_fine(&single->waiting, error))
		return listen_again(&single->waiting);
	return link_handle_error(&single->link, error, failure);
}

static enum io_result read_reply(
	struct single *single, struct deadline deadline, struct failure *failure)
{
	struct wait_state *waiting = &single->waiting;
	struct deadline limit = deadline, slice;
	nanos late = late_at(waiting);
	struct reply *reply;
	enum io_result io;

	if (late < limit.until)
		limit.until = late;
	slice = limit;
	if (redis_form(single->link.server) == REDIS_SENTINEL)
		slice = deadline_within(limit, FOLLOW_EVERY);
	io = connection_read(single->link.connection, &reply, slice, failure);
	if (io == IO_TIMEOUT && slice.until < limit.until)
		return link_is_current(&single->link, deadline) ? IO_OK : IO_CLOSED;
	if (io == IO_TIMEOUT && clock_now() < deadline.until)
		return IO_CLOSED;
	if (io != IO_OK)
		return io;
	if (reply_error(reply))
		io = handle_error(single, reply_error(reply), failure);
	else if (waiting->stage == WAIT_MESSAGE)
		io = handle_message(single, reply, deadline, failure);
	else
		io = handlers[waiting->stage](single, reply);
	reply_free(reply);
	return io;
}

/* With TLS the connection is spent: a child has read the answer to the request over it. If it
 * cannot be opened again, the next request meets the fault, or the signal that ended this one. */
static enum io_result reopen(
	struct single *single, struct deadline deadline, struct failure *failure)
{
	enum io_result io =
		link_open(&single->link, deadline_within(deadline, SINGLE_TRY), failure);

	/* The server may have lost its memory by now, as behind any new connection. */
	single->waiting.dropped_at = clock_now();
	return io == IO_OK || io == IO_FAILED ? io : IO_CLOSED;
}

/* If the connection breaks meanwhile, only the next request finds out. */
enum lock_result wait_to_settle(nanos settled_at, struct deadline deadline)
{
	nanos left = settled_at - clock_now();

	if (!deadline_pause(deadline, left > 0 ? left : 0))
		return LOCK_CANCELLED;
	return clock_now() < deadline.until ? LOCK_GRANTED : LOCK_TIMEOUT;
}

enum lock_result single_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct single *single = (struct single *)lock;
	struct wait_state *waiting = &single->waiting;
	struct link *link = &single->link;
	enum io_result io;

	if (!single->request.queues) {
		link_drop(link);
		return wait_to_settle(waiting->settled_at, deadline);
	}
	single_borrow(single);
	io = link->connection ? IO_OK : reopen(single, deadline, failure);

	while (io == IO_OK) {
		if (waiting->stage != WAIT_REST) {
			io = read_reply(single, deadline, failure);
			continue;
		}
		link->waiting = false;
		if (waiting->moved) {
			waiting->moved = false;
			return LOCK_GRANTED;
		}
		if (clock_now() >= deadline.until)
			return LOCK_TIMEOUT;
		io = listen(single, deadline, failure);
	}
	if (io == IO_CLOSED) {
		link_drop(link);
		wait_stop(single);
		return LOCK_GRANTED;
	}
	return single_result(io, deadline);
}
