/* Releasing, and seeing to it that what was handed off was taken. */
#include "redis/single/single.h"

#include <bsd/string.h>
#include <poll.h>
#include <string.h>

#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/script/replies.h"
#include "redis/script/script.h"

#define BEHIND_MOST   (500 * NANOS_PER_MS) /* for a release behind a request that is not answered */
#define PAUSE_FIRST   1                    /* ms */
#define PAUSE_LONGEST 100

/* The same moment by the server's clock (us): what is handed to it late proves nothing. 0: it is
 * past. The grant was made before its answer came, so this is rather too early. */
static int64_t proof_ends(const struct single *single, const struct release_terms *release_terms)
{
	if (single->since_us == 0 || release_terms->valid_until <= clock_now())
		return 0;
	return single->since_us + (release_terms->valid_until - single->granted_at) / NANOS_PER_US;
}

static void begin_release(
	struct single *single, struct call *call, const struct release_terms *release_terms)
{
	const struct lock_request *request = &single->request;

	if (lock_is_by_token(&single->request)) {
		call_begin(call, &script_detached_release, &single->keys, single->lock.token);
		call_add(call, "");
		return;
	}
	call_begin(call, &script_release, &single->keys, single->lock.token);
	call_add(call, single->mode);
	call_add_number(call, release_terms->keep_ms);
	call_add_number(call, (int64_t)single->fence);
	call_add_number(call, (int64_t)single->generation);
	call_add_number(call, single->since_us);
	call_add_number(call, single->loss_told ? 0 : 1);
	call_add_number(call, release_terms->success ? 1 : 0);
	call_add_number(call, request->cooldown_ms);
	call_add(call, single->once);
	call_add_number(call, request->once_for_ms);
	call_add_number(call, proof_ends(single, release_terms));
	if (release_terms->ran) {
		call_add_number(call, release_terms->exit);
		call_add_number(call, single->since_us > 0
					      ? single->since_us
					      : (single->granted_at - clock_now()) / NANOS_PER_US);
		call_add(call, single->text);
	}
	if (!single->leaves)
		return;
	for (size_t i = release_terms->ran ? 3 : 0; i < 3; i++)
		call_add(call, "");
	call_add(call, single->waiter);
}

static bool read_release(
	struct single *single, const struct reply *reply, struct lock_answer *answer)
{
	bool gone = reply_says(reply, "gone"), lost = reply_says(reply, "lost");

	if (gone || lost || reply_says(reply, "released")) {
		answer->result = gone ? LOCK_GONE : lost ? LOCK_LOST : LOCK_RELEASED;
		replies_read_handed(reply_at(reply, 1), &single->handed);
		return true;
	}
	if (!lock_is_by_token(&single->request) || !replies_read_denial(reply, answer))
		return false;
	/* On the connection before this one the same release may have landed. */
	if (single->link.dials > 1 && reply_says(reply, "ended")) {
		answer->result = LOCK_RELEASED;
		replies_read_handed(reply_at(reply, 1), &single->handed);
	}
	return true;
}

bool single_write_release(struct single *single, const struct release_terms *release_terms)
{
	struct call call;

	begin_release(single, &call, release_terms);
	return link_write_behind(&single->link, &call);
}

enum io_result single_await_release(
	struct single *single, struct deadline deadline, struct lock_answer *answer)
{
	struct link *link = &single->link;
	enum io_result io = IO_OK;
	bool found = false;

	while (io == IO_OK && !found) {
		struct reply *reply;
		const char *error;

		io = connection_read(link->connection, &reply, deadline, &answer->failure);
		if (io != IO_OK)
			break;
		found = read_release(single, reply, answer);
		error = reply_error(reply);
		/* A request that is under way to that node will not be granted there. */
		if (error && (strncmp(error, "MOVED ", 6) == 0 || strncmp(error, "ASK ", 4) == 0))
			io = link_handle_error(link, error, &answer->failure);
		reply_free(reply);
	}
	if (!found) {
		link_drop(link);
		return io == IO_FAILED ? IO_CLOSED : io;
	}
	link->waiting = link->owes = false;
	link->due = 0;
	return IO_OK;
}

/*
 * A request is under way on this connection. Sent behind it, the release cannot be overtaken by it.
 * On a connection of its own it could be: what is granted late would then stay for a TTL. How many
 * replies come first is not known; none of them looks like ours. A release in full needs no second
 * request.
 */
static enum io_result release_behind(struct single *single,
	const struct release_terms *release_terms, struct deadline deadline,
	struct lock_answer *answer)
{
	nanos left = deadline.until == NANOS_NEVER ? NANOS_NEVER : deadline.until - clock_now();

	if (!single_write_release(single, release_terms)) {
		link_drop(&single->link);
		return IO_CLOSED;
	}
	return single_await_release(single,
		deadline_within(deadline, left / 2 < BEHIND_MOST ? left / 2 : BEHIND_MOST), answer);
}

static enum io_result release_once(struct single *single, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct link *link = &single->link;
	struct reply *reply;
	struct call call;
	enum io_result io;

	wait_stop(single);
	single_borrow(single);
	/* Behind a WAIT it would wait as well; on a connection of its own it may overtake the
	 * request, which then finds that its token has ended. */
	if (link->connection && link->waiting && !link->owes)
		return release_behind(single, release_terms, deadline, answer);
	begin_release(single, &call, release_terms);
	io = link_call(link, &call, &reply, deadline, &answer->failure);
	if (io != IO_OK)
		return io;
	if (!read_release(single, reply, answer)) {
		error_reply_nonsense(&answer->failure, link_server_name(link));
		io = IO_FAILED;
	}
	reply_free(reply);
	return io;
}

/* After the answer: nothing of this attempt is left in the server. */
void single_forget(struct single *single)
{
	single->lock.asked = false;
	single->loss_told = false;
	single->fence = single->generation = single->ticket = 0;
	single->since_us = 0;
	single->granted_at = 0;
	single->spent = true;
}

void single_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	static const struct release_terms plain;
	struct single *single = (struct single *)lock;
	enum io_result io;

	answer->result = LOCK_RELEASED;
	replies_read_handed(NULL, &single->handed);
	/* With a token that was given, another process may have asked by it. */
	if (!single->lock.asked && !single->request.token)
		return;
	do {
		io = release_once(single, release_terms ? release_terms : &plain, deadline, answer);
		if (io == IO_OK) {
			single_forget(single);
			return;
		}
		answer->result = io == IO_TIMEOUT ? LOCK_TIMEOUT : single_result(io, deadline);
		if (io == IO_CANCELLED ||
			(io == IO_FAILED && answer->failure.code != EXIT_UNREACHABLE) ||
			(lock_is_by_token(&single->request) && single->link.dials == 0))
			return;
	} while (link_pause(deadline, &io));
	if (io == IO_CANCELLED)
		answer->result = LOCK_CANCELLED;
}

/* False: there was no answer. */
static bool verify(struct single *single, struct deadline deadline)
{
	struct failure unheard;
	struct reply *reply;
	struct call call;

	wait_stop(single);
	single_borrow(single);
	call_begin(&call, &script_verify, &single->keys, single->lock.token);
	_Static_assert(CALL_WORDS >= 12 + HANDED_MOST, "all tokens fit");
	for (int i = 0; i < single->handed.count; i++)
		call_add(&call, single->handed.tokens[i]);
	if (link_call(&single->link, &call, &reply, deadline, &unheard) != IO_OK) {
		/* An answer that comes late would be taken for the one to the next request. */
		link_drop(&single->link);
		return false;
	}
	replies_read_handed(reply_at(reply, 1), &single->handed);
	reply_free(reply);
	return true;
}

/* After a round trip, then after 2, 4 … 100 ms: a message can go into a dead socket. */
bool single_verify(struct lock *lock, nanos limit)
{
	struct single *single = (struct single *)lock;
	struct handed *handed = &single->handed;
	struct deadline deadline = {.until = clock_now() + limit, .cancel_fd = -1};
	int pause = PAUSE_FIRST;

	while (handed->count > 0 && clock_now() < deadline.until) {
		char first[LOCK_TOKEN_SIZE];

		strlcpy(first, handed->tokens[0], sizeof(first));
		poll(NULL, 0, pause);
		/* Too late to hear what would be asked now. */
		if (clock_now() >= deadline.until || !verify(single, deadline))
			break;
		pause = pause * 2 < PAUSE_LONGEST ? pause * 2 : PAUSE_LONGEST;
		if (strcmp(first, handed->tokens[0]) != 0) { /* the next in a row of dead ones */
			pause = PAUSE_FIRST;
			deadline.until = clock_now() + limit;
		}
	}
	return handed->count > 0;
}
