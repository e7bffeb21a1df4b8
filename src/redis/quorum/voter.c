/* One server of a quorum, and the thread that speaks to it. */
#include "redis/quorum/quorum.h"

#include <bsd/string.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "redis/link/connection.h"
#include "redis/redis_service.h"
#include "redis/script/replies.h"
#include "redis/script/script.h"

#define STEP_MOST  (5 * NANOS_PER_SEC) /* for a request behind which no caller waits */
#define MEND_FIRST NANOS_PER_SEC       /* until a missing server is tried again; then twice that */

/* ---- what it does, without the mutex ---- */

/* A new order ends it. */
static struct deadline limit(const struct voter *voter, nanos until)
{
	return (struct deadline){
		.until = until, .cancel_fd = voter->wakeup_fd, .least = DEADLINE_LEAST};
}

static nanos step_end(const struct voter *voter)
{
	int64_t ttl_ms = voter->single->request.ttl_ms;
	nanos most = ttl_ms > 0 ? ttl_ms * NANOS_PER_MS / 2 : STEP_MOST;

	return clock_now() + number_least(most, STEP_MOST);
}

/* A server that is not done with the handshake of TLS when the connection ends reads nothing of
 * what was sent behind that. */
static bool is_safe(const struct voter *voter)
{
	return !voter->server.tls || voter->single->link.heard;
}

/* No process may be left to say it again. */
static void tell_written(struct voter *voter)
{
	pthread_mutex_lock(&voter->quorum->mutex);
	voter->written = true;
	pthread_mutex_unlock(&voter->quorum->mutex);
	wakeup_send(voter->quorum->news_fd);
}

/* After a request whose answer no process awaits. */
static void see_off(struct voter *voter)
{
	struct link *link = &voter->single->link;
	struct failure unheard;
	struct reply *reply;

	if (!is_safe(voter) && connection_read(link->connection, &reply,
				       limit(voter, step_end(voter)), &unheard) == IO_OK) {
		link->heard = true;
		reply_free(reply);
	}
	if (is_safe(voter))
		tell_written(voter);
}

static void adopt_grant(struct single *single, const struct errand *errand)
{
	single->fence = single->generation = errand->fence;
	single->granted_at = errand->granted_at;
	/* A server tells of a loss that all together have found. */
	single->loss_told = !errand->lost;
}

/* False: there is nothing to release. */
static bool begin_release(struct voter *voter, const struct errand *errand)
{
	struct single *single = voter->single;

	if (errand->fence == 0)
		single->since_us = 0;
	adopt_grant(single, errand);
	single->leaves = errand->leaves && (voter->enrolled || errand->orphaned);
	single->lock.asked = voter->promised || single->leaves || errand->orphaned;
	voter->reply.result = LOCK_TIMEOUT;
	return single->lock.asked;
}

static void take(struct voter *voter, const struct errand *errand)
{
	struct single *single = voter->single;
	struct lock_answer *answer = &voter->reply;

	/* The last attempt may have left something, if there was no time for its release. */
	if (voter->promised && begin_release(voter, errand))
		single_write_release(single, &errand->terms);
	single_forget(single);
	answer->result = LOCK_FAILED;
	strlcpy(single->lock.token, errand->token, LOCK_TOKEN_SIZE);
	if (!single_name_keys(single, &answer->failure))
		return;
	single->waiting = (struct wait_state){0};
	single->ticket = (uint64_t)errand->ticket;
	single_take(&single->lock, limit(voter, errand->until), answer);
	voter->enrolled |= single->request.queues && single->lock.asked;
	voter->promised =
		single->lock.asked && answer->result != LOCK_BUSY && answer->result != LOCK_ALREADY;
}

/* Behind a request that is not answered it goes in full, as no process stays to repeat it. */
static void confirm(struct voter *voter, const struct errand *errand)
{
	struct single *single = voter->single;
	struct lock_answer *answer = &voter->reply;
	struct reply *reply;
	struct call call;
	enum io_result io;

	call_begin(&call, &script_confirm, &single->keys, single->lock.token);
	call_add_number(&call, (int64_t)errand->fence);
	call_add_number(&call, lock_ttl_ms(&single->request, errand->granted_at));
	call_add_number(&call, errand->ticket);
	call_add(&call, single->text);
	call_add(&call, single->waiter);
	if (single->link.waiting) {
		if (link_write_behind(&single->link, &call))
			see_off(voter);
		answer->result = LOCK_TIMEOUT;
		return;
	}
	io = link_call(
		&single->link, &call, &reply, limit(voter, step_end(voter)), &answer->failure);
	answer->result = single_result(io, limit(voter, 0));
	if (io != IO_OK)
		return;
	if (!reply_says(reply, "confirmed"))
		answer->result = LOCK_LOST;
	voter->enrolled = false;
	reply_free(reply);
}

static void renew(struct voter *voter, const struct errand *errand)
{
	struct single *single = voter->single;

	adopt_grant(single, errand);
	voter->promised = true;
	single_renew(&single->lock, limit(voter, step_end(voter)), &voter->reply);
}

/* Behind a request that is not answered it goes in full. So it does if a waiter leaves: it does not
 * wait for the answer, but for the handshake of TLS, before which nothing is sent. */
static void release(struct voter *voter, const struct errand *errand)
{
	struct single *single = voter->single;
	struct lock_answer *answer = &voter->reply;
	struct deadline deadline = limit(voter, errand->until);

	if (!begin_release(voter, errand))
		return;
	if (single->leaves && !single->link.waiting)
		link_open(&single->link, deadline, &answer->failure);
	if ((single->leaves || single->link.waiting) &&
		single_write_release(single, &errand->terms)) {
		if (is_safe(voter))
			tell_written(voter);
		if (single_await_release(single, deadline, answer) == IO_OK)
			single_forget(single);
	}
	if (single->lock.asked)
		single_release(&single->lock, &errand->terms, deadline, answer);
	voter->promised = single->lock.asked;
	if (!single->lock.asked && single->leaves)
		voter->enrolled = false;
}

static void say_last_word(struct voter *voter, const struct errand *errand)
{
	if (begin_release(voter, errand) && single_write_release(voter->single, &errand->terms))
		see_off(voter);
}

/* "look N": in so many ms; any other is meant for now. -1: there is none, or one that makes no
 * sense. */
static int64_t read_message(const struct reply *reply)
{
	const char *message = reply_text(reply_at(reply, 1));
	int64_t ms;

	if (!message)
		return -1;
	ms = strncmp(message, "look ", 5) == 0 ? strtoll(message + 5, NULL, 10) : 0;
	return ms >= 0 && ms <= WAIT_LISTEN_MS ? ms : -1;
}

/* The lease says how long we shall listen at least; in the same write, so that a waiter never seems
 * to listen when it does not. Redis 5 takes whole seconds only for BLPOP, and we end it anyway. */
static bool listen_once(struct voter *voter, int64_t ms, nanos until, int64_t *told_ms)
{
	struct link *link = &voter->single->link;
	const struct keys *keys = &voter->quorum->waiter_keys;
	struct deadline deadline = limit(voter, until);
	struct failure unheard;
	struct reply *reply;
	char timeout[NUMBER_SIZE], lease[NUMBER_SIZE];
	bool good;

	if (link_open(link, deadline, &unheard) != IO_OK)
		return false;
	link->waiting = true;
	connection_append(link->connection,
		WORDS("PEXPIRE", keys->who, number_text(lease, ms + WAIT_LEASE_MS)));
	connection_append(link->connection,
		WORDS("BLPOP", keys->wake, number_text(timeout, (ms + 999) / 1000)));
	if (connection_flush(link->connection, deadline, &unheard) != IO_OK ||
		connection_read(link->connection, &reply, deadline, &unheard) != IO_OK)
		return false;
	good = reply_is_integer(reply);
	reply_free(reply);
	if (!good || connection_read(link->connection, &reply, deadline, &unheard) != IO_OK)
		return false;
	*told_ms = read_message(reply);
	good = reply_is_nil(reply) || reply_count(reply) == 2;
	link->waiting = !good;
	reply_free(reply);
	return good;
}

static void listen_on(struct voter *voter, const struct errand *errand)
{
	int64_t told_ms;

	while (listen_once(voter, errand->listen_ms, errand->until, &told_ms)) {
		struct quorum *quorum = voter->quorum;
		nanos moment = clock_now() + told_ms * NANOS_PER_MS;

		if (told_ms < 0)
			continue;
		pthread_mutex_lock(&quorum->mutex);
		if (moment < quorum->listen_until)
			quorum->listen_until = moment + clock_jitter(QUORUM_WOKEN);
		pthread_mutex_unlock(&quorum->mutex);
		wakeup_send(quorum->news_fd);
	}
	/* Behind a BLPOP whatever comes next would wait. */
	link_drop(&voter->single->link);
}

/* Of several holders the first, as an answer to a request to acquire would tell of it. */
static void note_forced(const struct lock_answer *held, void *context)
{
	struct lock_answer *noted = context;

	if (noted->result == LOCK_BUSY)
		return;
	*noted = *held;
	if (held->known)
		snprintf(noted->holder_token, sizeof(noted->holder_token), "%.60s:%d",
			held->holder.host, (int)held->holder.pid);
}

static void force(struct voter *voter, const struct errand *errand)
{
	struct lock_answer held = {.result = LOCK_GONE};
	enum lock_result result;

	single_force(&voter->single->lock, note_forced, &held, limit(voter, errand->until),
		&voter->reply);
	result = voter->reply.result;
	if (result == LOCK_RELEASED && held.result == LOCK_BUSY)
		voter->reply = held;
	voter->reply.result = result;
}

static void (*const steps[])(struct voter *voter, const struct errand *errand) = {
	[TASK_TAKE] = take,
	[TASK_CONFIRM] = confirm,
	[TASK_RENEW] = renew,
	[TASK_RELEASE] = release,
	[TASK_LAST_WORD] = say_last_word,
	[TASK_LISTEN] = listen_on,
	[TASK_FORCE] = force,
};

/* ---- what came of it, with the mutex ---- */

static void record_vote(struct voter *voter)
{
	static const enum vote votes[] = {
		[LOCK_GRANTED] = VOTE_GRANTED,
		[LOCK_BUSY] = VOTE_BUSY,
		[LOCK_ALREADY] = VOTE_ALREADY,
		[LOCK_LOST] = VOTE_NO,
		[LOCK_FAILED] = VOTE_NO,
		[LOCK_UNREPLICATED] = VOTE_NO,
	};

	voter->answer = voter->reply;
	voter->replied_at = clock_now();
	voter->vote = votes[voter->reply.result];
	if (voter->reply.result == LOCK_LOST)
		failure_set(&voter->failure, EXIT_UNREACHABLE, "%s was too late", voter->name);
	voter->twin = voter->failure.code == EXIT_USAGE;
}

/* A promise that came after the token was made may be of a server that has lost its counter: then
 * only its clock, which is in the promise, knows of a token that was granted before (docs/model,
 * NO_PROMISE). */
static void record_confirmation(struct voter *voter, const struct errand *errand)
{
	if (voter->vote != VOTE_GRANTED || voter->reply.result == LOCK_TIMEOUT ||
		voter->reply.result == LOCK_CANCELLED)
		return;
	voter->vote = VOTE_NO;
	if (voter->reply.result != LOCK_GRANTED)
		return;
	voter->had = true;
	voter->proved_at = voter->quorum->asked_at;
	if (voter->answer.fence <= errand->fence)
		voter->vote = VOTE_CONFIRMED;
}

/* A server that has it for the first time has lost nothing. */
static void record_renewal(struct voter *voter)
{
	if (voter->word != LOCK_GRANTED && voter->word != LOCK_SET_AGAIN)
		return;
	voter->again |= voter->word == LOCK_SET_AGAIN && voter->had;
	voter->had = true;
	voter->proved_at = voter->reply.asked_at;
}

static void record(struct voter *voter, enum task task, const struct errand *errand)
{
	enum lock_result word = voter->reply.result;

	voter->touched = voter->promised;
	voter->failure.code = EXIT_DONE;
	if (word == LOCK_FAILED) {
		voter->failure = voter->reply.failure;
		if (!strstr(voter->failure.text, voter->name))
			failure_set(&voter->failure, voter->failure.code, "%s: %s", voter->name,
				voter->failure.text);
	}
	if (task == TASK_TAKE) {
		if (errand->attempt == voter->quorum->errand.attempt)
			record_vote(voter);
		return;
	}
	if (task == TASK_CONFIRM) {
		record_confirmation(voter, errand);
		return;
	}
	voter->word = word;
	if (task == TASK_RENEW)
		record_renewal(voter);
	if (task == TASK_FORCE && word == LOCK_RELEASED) {
		voter->answer = voter->reply;
		voter->vote = VOTE_BUSY;
	}
	voter->deaf = task == TASK_LISTEN && clock_now() < errand->until;
}

/* A server that promised, or said that another has it, while the others went on. If it was not told
 * the token, it would vote with an old counter. */
static void follow_up(struct voter *voter)
{
	bool late = voter->task == TASK_TAKE && voter->quorum->errand.fence > 0 &&
		    (voter->vote == VOTE_GRANTED || voter->vote == VOTE_BUSY);

	if (!late || voter_is_pending(voter))
		return;
	voter->task = TASK_CONFIRM;
	voter->ordered++;
}

/* ---- the thread ---- */

static nanos mend_after(struct voter *voter)
{
	nanos most = voter->single->request.ttl_ms * NANOS_PER_MS / 3;
	nanos after = voter->mend_after ? voter->mend_after : MEND_FIRST;

	voter->mend_after = 2 * after;
	return after < most ? after : most;
}

/* Waits for an order; and while the lock is held for the connection to drop, which is news to the
 * caller, or, if there is none or the server has not the lock, until it is to be tried again:
 * true. */
static bool rest(struct voter *voter)
{
	struct link *link = &voter->single->link;
	bool mends = voter->quorum->held && !voter->twin;
	bool missing = !link->connection || link->waiting || !voter->had;
	struct pollfd fds[] = {
		{.fd = voter->wakeup_fd, .events = POLLIN},
		{.fd = -1, .events = POLLRDHUP},
	};
	nanos until = mends && missing ? clock_now() + mend_after(voter) : NANOS_NEVER;

	if (!missing) {
		voter->mend_after = 0;
		fds[1].fd = mends ? connection_fd(link->connection) : -1;
	}
	pthread_mutex_unlock(&voter->quorum->mutex);
	(void)poll(fds, 2, clock_poll_ms(until));
	if (fds[0].revents)
		wakeup_clear(voter->wakeup_fd);
	if (fds[1].revents) {
		link_drop(link);
		wakeup_send(voter->quorum->watch_fd);
	}
	pthread_mutex_lock(&voter->quorum->mutex);
	return clock_now() >= until;
}

static void carry_out(struct voter *voter, enum task task)
{
	struct quorum *quorum = voter->quorum;
	struct errand errand = quorum->errand;

	wakeup_clear(voter->wakeup_fd);
	voter->busy = true;
	pthread_mutex_unlock(&quorum->mutex);
	memset(&voter->reply, 0, sizeof(voter->reply));
	voter->self = errand.self;
	steps[task](voter, &errand);
	pthread_mutex_lock(&quorum->mutex);
	voter->busy = false;
	record(voter, task, &errand);
}

void voter_obey(struct voter *voter)
{
	unsigned order = voter->ordered;

	carry_out(voter, voter->task);
	voter->done = order;
	follow_up(voter);
	wakeup_send(voter->quorum->news_fd);
}

static void *serve(void *argument)
{
	struct voter *voter = argument;
	struct quorum *quorum = voter->quorum;

	pthread_mutex_lock(&quorum->mutex);
	while (!voter_is_pending(voter) || voter->task != TASK_END) {
		bool mends = !voter_is_pending(voter) && rest(voter);

		if (voter_is_pending(voter) && voter->task != TASK_END)
			voter_obey(voter);
		else if (mends && quorum->held && !voter_is_pending(voter))
			carry_out(voter, TASK_RENEW);
	}
	pthread_mutex_unlock(&quorum->mutex);
	return NULL;
}

static bool start(struct voter *voter)
{
	if (voter->quorum->news_fd < 0) {
		voter->quorum->news_fd = wakeup_open();
		voter->quorum->watch_fd = wakeup_open();
	}
	voter->wakeup_fd = wakeup_open();
	if (voter->quorum->news_fd < 0 || voter->quorum->watch_fd < 0 || voter->wakeup_fd < 0)
		return false;
	return thread_start(&voter->thread, NULL, serve, voter) == 0;
}

bool voter_is_pending(const struct voter *voter)
{
	return voter->done != voter->ordered;
}

bool voter_is_owed(const struct voter *voter)
{
	return voter_is_pending(voter) && !voter->written;
}

void voter_order(struct voter *voter, enum task task)
{
	bool fresh = voter->wakeup_fd < 0;

	voter->task = task;
	voter->ordered++;
	voter->written = false;
	voter->word = LOCK_TIMEOUT;
	if (fresh && !start(voter)) {
		if (voter->wakeup_fd >= 0)
			close(voter->wakeup_fd);
		voter->wakeup_fd = -1;
		voter->done = voter->ordered;
		voter->vote = VOTE_NO;
		failure_set(&voter->failure, EXIT_SYSTEM, "cannot start a thread");
	} else if (!fresh && (!voter->busy || task != TASK_RENEW)) {
		wakeup_send(voter->wakeup_fd);
	}
}

bool voter_open(struct voter *voter, struct quorum *quorum, const struct server *list, size_t which,
	struct failure *failure)
{
	struct lock_request request = quorum->request;

	voter->quorum = quorum;
	voter->wakeup_fd = -1;
	voter->word = LOCK_TIMEOUT;
	redis_one_of(list, which, &voter->server, voter->name);
	request.token_page = NULL;
	request.held = NULL; /* the text may change under a thread; no circle is looked for here */
	request.self = &voter->self;
	voter->self = quorum->errand.self;
	voter->single = (struct single *)redis_service.open(&voter->server, &request, failure);
	voter->promised = request.token != NULL; /* an owner with a token was here before */
	if (!voter->single)
		return false;
	voter->single->size = list->endpoint_count; /* of how many it is one */
	strlcpy(voter->single->waiter, quorum->waiter, LOCK_TOKEN_SIZE);
	return true;
}

void voter_close(struct voter *voter)
{
	if (voter->wakeup_fd >= 0) {
		pthread_mutex_lock(&voter->quorum->mutex);
		voter_order(voter, TASK_END);
		pthread_mutex_unlock(&voter->quorum->mutex);
		pthread_join(voter->thread, NULL);
		close(voter->wakeup_fd);
	}
	lock_close(&voter->single->lock);
}
