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
#include "redis/redis_url.h"
#include "redis/link/connection.h"
#include "redis/script/replies.h"

#define ROOM_EVERY   16   /* one look in so many is for room beside sharers, far behind; even */
#define RANK_MS      50   /* each place gives so long to those before it, once all is late */
#define CLAIM_MS     1005 /* CLAIM in prelude.lua, and a bit */
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

	waiting->listening = false;
	/* The waiter that we handed it to may be dead, and no other may look. */
	waiting->told_ms = single->handed.count > 0 ? CLAIM_MS : -1;
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
	if (single->waiting.listening)
		link_drop(&single->link);
	single->waiting.listening = single->waiting.moved = false;
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

/* The findings of a look. */
static void note_holder(struct single *single, const struct reply *reply)
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
}

static void note_expiry(struct single *single, const struct reply *reply)
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
}

static void note_place(struct single *single, const struct reply *reply)
{
	struct wait_state *waiting = &single->waiting;
	int rank = (int)reply_within(reply, 0, REPLIES_RANK_MOST);

	/* Not in the queue: passed over, or the lock is ours and the message was lost. First only
	 * now: the holder and its expiry are to be watched from here on. */
	if (!reply_is_integer(reply) || (rank == 0 && waiting->rank != 0) ||
		(rank != waiting->rank && single->request.watched))
		waiting->moved = true;
	waiting->rank = rank;
}

/* The next reply. IO_CLOSED: it has not come by then, or the server has been replaced. */
static enum io_result read_reply(struct single *single, nanos late_at, struct reply **reply,
	struct deadline deadline, struct failure *failure)
{
	struct deadline limit = deadline, slice;
	enum io_result io;

	limit.until = number_least(limit.until, late_at);
	do {
		slice = limit;
		if (redis_form(single->link.server) == REDIS_SENTINEL)
			slice = deadline_within(limit, FOLLOW_EVERY);
		io = connection_read(single->link.connection, reply, slice, failure);
		if (io != IO_TIMEOUT || slice.until >= limit.until)
			break;
	} while (link_is_current(&single->link, deadline));
	return io == IO_TIMEOUT && clock_now() < deadline.until ? IO_CLOSED : io;
}

static enum io_result look(struct single *single, struct deadline deadline, struct failure *failure)
{
	static void (*const notes[])(struct single * single, const struct reply *reply) = {
		note_holder, note_expiry, note_place};
	const struct keys *keys = &single->keys;
	struct connection *connection = single->link.connection;
	bool brief = polls(&single->waiting);
	enum io_result io;

	single->waiting.for_room = looks_for_room(single);
	single->link.waiting = true;
	connection_append(connection, WORDS("GET", keys->lock));
	if (!brief) {
		connection_append(connection, WORDS("PTTL", keys->lock));
		connection_append(connection, WORDS("ZRANK", keys->queue, single->lock.token));
	}
	io = connection_flush(connection, deadline, failure);
	for (size_t i = 0; io == IO_OK && i < (brief ? 1 : 3); i++) {
		struct reply *reply;

		io = read_reply(single, clock_now() + LATE, &reply, deadline, failure);
		if (io != IO_OK)
			break;
		if (reply_error(reply))
			io = link_handle_error(&single->link, reply_error(reply), failure);
		else
			notes[i](single, reply);
		reply_free(reply);
	}
	if (io != IO_OK)
		link_drop(&single->link);
	return io;
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
 * listen when it does not, and be passed over though it lives (tell in handing.lua). */
static enum io_result listen(
	struct single *single, struct deadline deadline, struct failure *failure)
{
	struct wait_state *waiting = &single->waiting;
	struct connection *connection = single->link.connection;
	const char *held = single->request.held;
	int64_t ms = listen_ms(waiting);
	char timeout[32], lease[NUMBER_SIZE];

	if (held && *held != '\0')
		ms = number_least(ms, NESTED_MS);
	/* A wait that goes on after this deadline is to find BLPOP as it was. */
	if (!waiting->in_seconds)
		ms = number_least(ms, ms_until(deadline.until));
	waiting->told_ms = -1;
	if (ms == 0)
		return look(single, deadline, failure);
	ms = write_timeout(waiting, ms, timeout, sizeof(timeout));
	waiting->listen_until = after_ms(ms);
	waiting->late_at = clock_now() + LATE;
	connection_append(connection,
		WORDS("PEXPIRE", single->keys.who, number_text(lease, ms + WAIT_LEASE_MS)));
	connection_append(connection, WORDS("BLPOP", single->keys.wake, timeout));
	waiting->listening = single->link.waiting = true;
	return connection_flush(connection, deadline, failure);
}

/* "go", "look N", or nothing in time. */
static enum io_result handle_message(struct single *single, const struct reply *reply,
	struct deadline deadline, struct failure *failure)
{
	struct wait_state *waiting = &single->waiting;
	const char *message = reply_text(reply_at(reply, 1));

	waiting->listening = waiting->moved = false;
	if (!message)
		return look(single, deadline, failure);
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
static enum io_result handle_error(
	struct single *single, const char *error, struct failure *failure)
{
	struct wait_state *waiting = &single->waiting;

	if (waiting->in_seconds || !strstr(error, "timeout is not an integer"))
		return link_handle_error(&single->link, error, failure);
	waiting->in_seconds = true;
	waiting->told_ms = ms_until(waiting->listen_until);
	waiting->listening = false;
	return IO_OK;
}

/* Reads one reply to what listen has sent. IO_CLOSED: drop the connection and ask again. */
static enum io_result hear(struct single *single, struct deadline deadline, struct failure *failure)
{
	struct wait_state *waiting = &single->waiting;
	struct reply *reply;
	enum io_result io = read_reply(single, waiting->late_at, &reply, deadline, failure);

	if (io != IO_OK)
		return io;
	if (reply_error(reply)) {
		io = handle_error(single, reply_error(reply), failure);
	} else if (reply_is_integer(reply)) {
		/* PEXPIRE's. Without the record we were passed over. */
		io = reply_integer(reply) == 0 ? IO_CLOSED : IO_OK;
		waiting->late_at = waiting->listen_until + (waiting->cut ? 0 : LATE);
	} else {
		io = handle_message(single, reply, deadline, failure);
	}
	reply_free(reply);
	return io;
}

enum lock_result wait_for_moment(nanos moment, struct deadline deadline)
{
	nanos left = moment - clock_now();

	if (!deadline_pause(deadline, left > 0 ? left : 0))
		return LOCK_CANCELLED;
	return clock_now() < deadline.until ? LOCK_GRANTED : LOCK_TIMEOUT;
}

enum lock_result single_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct single *single = (struct single *)lock;
	struct wait_state *waiting = &single->waiting;
	struct link *link = &single->link;
	enum io_result io = IO_OK;

	/* Without a place in a queue no message can come: only the settle time is waited for. */
	if (!single->request.queues) {
		link_drop(link);
		return wait_for_moment(waiting->settled_at, deadline);
	}
	single_borrow(single);
	if (!link->connection) /* a look was cut off */
		return LOCK_GRANTED;
	while (io == IO_OK) {
		if (waiting->listening) {
			io = hear(single, deadline, failure);
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
