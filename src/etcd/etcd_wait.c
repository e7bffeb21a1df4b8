/* Waiting for another's key to go, and watching over the own one: by streams, without asking. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "etcd/etcd_lock.h"
#include "net/server.h"

#define OPEN_LIMIT  (3 * NANOS_PER_SEC)  /* for a stream to be there */
#define AGAIN       (300 * NANOS_PER_MS) /* after one that broke */
#define GUARD_DELAY (50 * NANOS_PER_MS)  /* many a COMMAND is over by then */
#define KEEP_EVERY  (1600 * NANOS_PER_MS)
#define KEEP_LIMIT  NANOS_PER_SEC

static json_t *watch(const char *key, const char *end, int64_t from)
{
	return json_pack("{s{ss ss* sI}}", "create_request", "key", key, "range_end", end,
		"start_revision", (json_int_t)from);
}

/* Begins a stream with one or two watches; takes the references. */
static bool begin_stream(
	struct gateway *gateway, json_t *one, json_t *two, struct deadline deadline)
{
	char *first = json_dumps(one, JSON_COMPACT),
	     *second = two ? json_dumps(two, JSON_COMPACT) : NULL;
	char *text = NULL;
	bool done =
		first && asprintf(&text, "%s%s", first, second ? second : "") >= 0 &&
		gateway_stream(gateway, "v3/watch", text, deadline_within(deadline, OPEN_LIMIT));

	free(first);
	free(second);
	free(text);
	json_decref(one);
	json_decref(two);
	return done;
}

/* --- What a stream says ---------------------------------------------------------------------- */

static bool is_deletion(const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));

	return type && strcmp(type, "DELETE") == 0;
}

/* A contender as an event shows it; to be freed. False: the key was deleted. */
static bool read_event(const json_t *event, struct etcd_queue *queue)
{
	json_t *kvs = json_pack("[O]", json_object_get(event, "kv"));
	bool good =
		etcd_queue_read(queue, json_pack("{so}", "kvs", kvs), kvs) && queue->all.count == 1;

	return good && !is_deletion(event);
}

/* Whether an event ends the wait: a contender is gone, or has released the lock; or it may have got
 * a permit, for which this one is waiting too. */
static bool ends_wait(struct etcd_lock *e, const json_t *event)
{
	const char *key = json_string_value(json_object_get(json_object_get(event, "kv"), "key"));
	struct etcd_queue queue;
	bool there = read_event(event, &queue), ends = !there;

	if (there && !(key && strcmp(key, e->key) == 0)) {
		enum contender_state state = etcd_queue_at(&queue, 0)->is.state;

		ends = state == CONTENDER_RELEASED ||
		       (state == CONTENDER_HOLDING && e->request.mode == LOCK_PERMITS);
	}
	etcd_queue_free(&queue);
	return ends;
}

/* Whether the own key is no longer what we wrote. */
static bool ends_hold(struct etcd_lock *e, const json_t *event)
{
	struct etcd_queue queue;
	bool lost = !read_event(event, &queue) ||
		    etcd_queue_at(&queue, 0)->is.state == CONTENDER_RELEASED ||
		    strcmp(etcd_queue_at(&queue, 0)->is.id, e->lock.token) != 0;

	etcd_queue_free(&queue);
	return lost;
}

typedef bool event_ends(struct etcd_lock *e, const json_t *event);

/* Reads one line: LOCK_GRANTED: an event of it counts; LOCK_BUSY: none; LOCK_FAILED: the stream has
 * ended, or was cancelled (what it was to begin with is compacted). */
static enum lock_result read_line(
	struct etcd_lock *e, struct gateway *gateway, event_ends *ends, struct deadline deadline)
{
	json_t *line = NULL;
	enum lock_result result = gateway_next(gateway, deadline, &line);
	const json_t *content = json_object_get(line, "result"),
		     *events = json_object_get(content, "events");

	if (result == LOCK_GRANTED) {
		result = content && !json_is_true(json_object_get(content, "canceled"))
				 ? LOCK_BUSY
				 : LOCK_FAILED;
		for (size_t i = 0; i < json_array_size(events); i++)
			if (ends(e, json_array_get(events, i)))
				result = LOCK_GRANTED;
	}
	json_decref(line);
	return result;
}

/* --- Waiting --------------------------------------------------------------------------------- */

/* The first lease has the whole TTL: the place gets a short one. LOCK_GRANTED: ask. */
static enum lock_result shorten(struct etcd_lock *e, struct deadline deadline)
{
	nanos now = clock_now();
	struct failure failure;
	int64_t lease = 0;
	bool done = false;
	enum lock_result result = etcd_grant(e, &lease, ETCD_PLACE_TTL, deadline, &failure);

	if (result == LOCK_GRANTED)
		result = etcd_transact(e,
			json_pack("[o]", etcd_when(e->key, "CREATE", e->own.is.place)),
			json_pack("[o]", etcd_put(e->key, etcd_value(e, CONTENDER_WAITING), lease)),
			NULL, deadline, &done, NULL, &failure);
	if (!done) /* the place is gone: ask */
		return result == LOCK_GONE ? LOCK_GRANTED : result;
	etcd_revoke(e, e->own.lease, deadline, &failure);
	e->own.lease = lease;
	e->kept_at = now;
	return LOCK_BUSY;
}

/* The answer to the last request to keep the place, and the next request. An answer is awaited no
 * sooner than it matters, so that nobody is woken for it. */
static enum lock_result keep_place(struct etcd_lock *e, struct deadline deadline)
{
	char text[64];
	json_t *answer = NULL;
	struct failure failure;
	enum lock_result result = LOCK_GRANTED;

	if (e->keeps) {
		result = gateway_receive(&e->gateway, deadline, &answer, &failure);
		e->keeps = false;
		if (result == LOCK_GRANTED &&
			json_number(json_object_get(answer, "result"), "TTL") <= 0)
			result = LOCK_GONE;
		json_decref(answer);
	}
	if (result == LOCK_GONE) /* the place is gone: ask */
		return LOCK_GRANTED;
	if (result != LOCK_GRANTED)
		return result;
	e->kept_at = clock_now();
	snprintf(text, sizeof(text), "{\"ID\":%" PRId64 "}", e->own.lease);
	e->keeps = gateway_send(&e->gateway, "v3/lease/keepalive", text);
	return e->keeps ? LOCK_BUSY : LOCK_FAILED;
}

static enum lock_result wait_by_stream(struct etcd_lock *e, struct deadline deadline)
{
	enum lock_result result = LOCK_BUSY;

	while (result == LOCK_BUSY) {
		struct deadline limit = deadline;

		if (e->kept_at + KEEP_EVERY < limit.until)
			limit = (struct deadline){e->kept_at + KEEP_EVERY, deadline.cancel_fd, 0};
		result = read_line(e, &e->stream, ends_wait, limit);
		if (result != LOCK_TIMEOUT || deadline_is_over(&deadline))
			continue;
		result = keep_place(e, deadline_within(deadline, KEEP_LIMIT));
		if (result == LOCK_TIMEOUT && !deadline_is_over(&deadline))
			result = LOCK_FAILED;
	}
	return result;
}

/* LOCK_BUSY: the watches, on the own key and on what it waits for, are there, and what else a wait
 * begins with is done. */
static enum lock_result begin_wait(struct etcd_lock *e, struct deadline deadline)
{
	bool any = *e->obstacle == '\0';

	e->streams = true;
	gateway_open_beside(&e->stream, &e->gateway);
	if (!begin_stream(&e->stream, watch(e->key, NULL, e->revision + 1),
		    watch(any ? e->from : e->obstacle, any ? e->to : NULL, e->revision + 1),
		    deadline))
		return LOCK_FAILED;
	return e->kept_at == 0 ? shorten(e, deadline) : LOCK_BUSY;
}

void etcd_wait_stop(struct etcd_lock *e)
{
	if (!e->streams)
		return;
	gateway_close(&e->stream);
	gateway_stop(&e->gateway);
	e->streams = e->keeps = false;
}

/* The stream broke: the next request is for another endpoint, and finds out more. */
static enum lock_result turn_elsewhere(struct etcd_lock *e, struct deadline deadline)
{
	e->gateway.at = (e->gateway.at + 1) % e->server->endpoint_count;
	if (!deadline_pause(deadline, AGAIN))
		return LOCK_CANCELLED;
	return deadline_is_over(&deadline) ? LOCK_TIMEOUT : LOCK_GRANTED;
}

/* Without a place nothing keeps it from asking again; with -n it is not asked at all. If the wait
 * is cut short, its watch stays for the next one. */
enum lock_result etcd_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;
	enum lock_result result = e->streams ? LOCK_BUSY : begin_wait(e, deadline);
	bool begun = result == LOCK_BUSY;

	(void)failure;
	if (begun)
		result = wait_by_stream(e, deadline);
	if (!begun || (result != LOCK_CANCELLED && result != LOCK_TIMEOUT))
		etcd_wait_stop(e);
	return result == LOCK_FAILED ? turn_elsewhere(e, deadline) : result;
}

/* --- Holding --------------------------------------------------------------------------------- */

/* Until the key is another's or gone, or the end: true. */
static bool watch_own(struct etcd_lock *e, struct deadline deadline)
{
	struct etcd_guard *guard = &e->guard;
	enum lock_result result = LOCK_BUSY;
	bool again = guard->from == 0;

	if (!begin_stream(&guard->gateway, watch(e->key, NULL, guard->from), NULL, deadline))
		result = LOCK_FAILED;
	while (result == LOCK_BUSY) {
		result = read_line(e, &guard->gateway, ends_hold, deadline);
		/* A renewal finds what was missed meanwhile. */
		if (result == LOCK_BUSY && again)
			wakeup_send(guard->news_fd);
		again = false;
	}
	if (result == LOCK_GRANTED)
		wakeup_send(guard->news_fd);
	return result == LOCK_GRANTED || result == LOCK_CANCELLED;
}

static void *run_guard(void *argument)
{
	struct etcd_lock *e = argument;
	struct deadline deadline = {.until = NANOS_NEVER, .cancel_fd = e->guard.stop_fd};
	bool goes_on = deadline_pause(deadline, GUARD_DELAY);

	while (goes_on && !watch_own(e, deadline)) {
		e->guard.from = 0;
		e->guard.gateway.at = (e->guard.gateway.at + 1) % e->server->endpoint_count;
		goes_on = deadline_pause(deadline, AGAIN);
	}
	return NULL;
}

static bool start(struct etcd_lock *e)
{
	struct etcd_guard *guard = &e->guard;

	guard->from = e->own.mod + 1;
	guard->news_fd = wakeup_open();
	guard->stop_fd = wakeup_open();
	gateway_open_beside(&guard->gateway, &e->gateway);
	return guard->news_fd >= 0 && guard->stop_fd >= 0 &&
	       thread_start(&guard->thread, NULL, run_guard, e) == 0;
}

static void close_guard(struct etcd_guard *guard)
{
	gateway_close(&guard->gateway);
	if (guard->news_fd >= 0)
		close(guard->news_fd);
	if (guard->stop_fd >= 0)
		close(guard->stop_fd);
	guard->news_fd = guard->stop_fd = -1;
}

int etcd_watch_fd(const struct lock *lock)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;

	if (e->guard.news_fd < 0 && e->own.mod != 0 && e->own.is.state != CONTENDER_WAITING &&
		!start(e))
		close_guard(&e->guard);
	return e->guard.news_fd;
}

void etcd_guard_stop(struct etcd_lock *e)
{
	if (e->guard.news_fd < 0)
		return;
	wakeup_send(e->guard.stop_fd);
	pthread_join(e->guard.thread, NULL);
	close_guard(&e->guard);
}
