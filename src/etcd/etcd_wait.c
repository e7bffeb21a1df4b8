/* Waiting for another's key to go, and watching over the own one: by streams, without asking. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "base/wakeup.h"
#include "etcd/etcd_lock.h"
#include "net/server.h"

#define OPEN_LIMIT  (3 * NANOS_PER_SEC)  /* for a stream to be there */
#define AGAIN       (300 * NANOS_PER_MS) /* after one that broke */
#define GUARD_DELAY (50 * NANOS_PER_MS)  /* many a COMMAND is over by then */
#define KEEP_EVERY  (1600 * NANOS_PER_MS)
#define KEEP_LIMIT  NANOS_PER_SEC
#define DOUBT_LIMIT (5 * NANOS_PER_SEC)
#define SPARE_PART  5 /* of its TTL: so old a spare lease is replaced */

static json_t *watch(const char *key, const char *end, int64_t from)
{
	return json_pack("{s{ss ss* sI}}", "create_request", "key", key, "range_end", end,
		"start_revision", (json_int_t)from);
}

/* The own key, and what it waits for. Two watches in one stream. */
static char *watch_text(const struct etcd_lock *e)
{
	json_t *own = watch(e->key, NULL, e->revision + 1);
	json_t *other = *e->obstacle ? watch(e->obstacle, NULL, e->revision + 1)
				     : watch(e->from, e->to, e->revision + 1);
	char *one = json_dumps(own, JSON_COMPACT), *two = json_dumps(other, JSON_COMPACT);
	char *text = NULL;

	if (!one || !two || asprintf(&text, "%s%s", one, two) < 0)
		text = NULL;
	free(one);
	free(two);
	json_decref(own);
	json_decref(other);
	return text;
}

/* --- What a stream says ---------------------------------------------------------------------- */

static bool is_deletion(const json_t *event)
{
	const char *type = json_string_value(json_object_get(event, "type"));

	return type && strcmp(type, "DELETE") == 0;
}

/* A contender as an event shows it; to be freed. False: the key was deleted. */
static bool read_event(const json_t *event, struct queue *queue)
{
	json_t *kvs = json_pack("[O]", json_object_get(event, "kv"));
	bool good = queue_read(queue, json_pack("{so}", "kvs", kvs), kvs) && queue->all.count == 1;

	return good && !is_deletion(event);
}

static nanos trust_until(const struct etcd_contender *c)
{
	return clock_now() + etcd_seconds(c->is.ttl_ms) * NANOS_PER_SEC;
}

/* Notes what a contender that was seen before has written. What is no news is older than its note.
 */
static void note(struct etcd_contender *seen, const struct etcd_contender *written)
{
	if (written->mod <= seen->mod)
		return;
	seen->mod = written->mod;
	seen->lease = written->lease;
	seen->is.state = written->is.state;
	seen->is.foreign = written->is.foreign;
	seen->is.ttl_ms = written->is.ttl_ms;
	seen->until = trust_until(written);
}

static bool may_hold(const struct etcd_contender *c)
{
	return !c->is.foreign && contender_may_hold(&c->is);
}

/* The key of one that was seen before is gone. If it did not say before that it released the lock,
 * its lease was revoked or has run out. */
static void note_deletion(struct etcd_lock *e, struct etcd_contender *c)
{
	bool both = c->is.mode == LOCK_SHARED && e->request.mode == LOCK_SHARED;

	if (!c->gone && may_hold(c) && !both && c->until > e->not_before)
		e->not_before = c->until;
	c->gone = true;
	c->doubt = false;
}

/* Notes what an event says of a contender that was seen before; NULL: of none. *there: it was
 * written. */
static struct etcd_contender *note_event(struct etcd_lock *e, const json_t *event, bool *there)
{
	struct queue queue;
	struct etcd_contender *c;

	*there = read_event(event, &queue);
	c = queue.all.count == 1 ? queue_find(&e->seen, queue_at(&queue, 0)->key) : NULL;
	if (c && *there)
		note(c, queue_at(&queue, 0));
	else if (c)
		note_deletion(e, c);
	queue_free(&queue);
	return c;
}

/* Whether an event ends the wait. If that was all that was in the way, no second look is needed. */
static bool ends_wait(struct etcd_lock *e, const json_t *event)
{
	const char *key = json_string_value(json_object_get(json_object_get(event, "kv"), "key"));
	bool permits = e->request.mode == LOCK_PERMITS, there;
	struct etcd_contender *c = key ? queue_find(&e->seen, key) : NULL;
	enum contender_state before = c ? c->is.state : CONTENDER_BY_PLACE;

	if (key && strcmp(key, e->key) == 0)
		return is_deletion(event);
	c = note_event(e, event, &there);
	if (!c)
		return !there;
	/* An exclusive holder was behind all that were ahead of it, and has waited for them. */
	if (may_hold(c) && c->is.mode == LOCK_EXCLUSIVE && strcmp(c->key, e->obstacle) == 0)
		e->alone = true;
	if (there && c->is.state != CONTENDER_RELEASED)
		return permits && c->is.state != before;
	e->clear = e->alone && strcmp(c->key, e->obstacle) == 0 && !permits && !may_hold(c) &&
		   clock_now() >= e->not_before;
	return true;
}

/* Whether the own key is no longer what we wrote. */
static bool ends_hold(struct etcd_lock *e, const json_t *event)
{
	struct queue queue;
	bool lost = !read_event(event, &queue) ||
		    queue_at(&queue, 0)->is.state == CONTENDER_RELEASED ||
		    strcmp(queue_at(&queue, 0)->is.id, e->lock.token) != 0;

	queue_free(&queue);
	return lost;
}

static bool has_doubt(const struct etcd_lock *e)
{
	for (size_t i = 0; i < e->seen.all.count; i++)
		if (queue_at(&e->seen, i)->doubt)
			return true;
	return false;
}

static bool ends_history(struct etcd_lock *e, const json_t *event)
{
	bool there;

	note_event(e, event, &there);
	return !has_doubt(e);
}

typedef bool heed(struct etcd_lock *e, const json_t *event);

/* Reads one line: LOCK_GRANTED: an event of it counts; LOCK_BUSY: none; LOCK_FAILED: the stream has
 * ended, or was cancelled (what it was to begin with is compacted). */
static enum lock_result read_line(
	struct etcd_lock *e, struct gateway *gateway, heed *ends, struct deadline deadline)
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

/* --- What vanished --------------------------------------------------------------------------- */

void etcd_remember(struct etcd_lock *e, struct queue *queue)
{
	for (size_t i = 0; i < queue->all.count; i++) {
		struct etcd_contender *c = queue_at(queue, i);
		const struct etcd_contender *before = queue_find_created(&e->seen, c->is.place);

		c->until = before && before->mod == c->mod ? before->until : trust_until(c);
	}
	queue_free(&e->seen);
	e->seen = *queue;
	*queue = (struct queue){0};
}

/* Finds those that are gone, and of which no watch has told why. */
static void find_vanished(struct etcd_lock *e, const struct queue *queue)
{
	bool exclusive = false, any = false;

	for (size_t i = e->seen.all.count; i-- > 0;) {
		struct etcd_contender *c = queue_at(&e->seen, i);
		const struct etcd_contender *there = queue_find_created(queue, c->is.place);

		if (c->is.place >= e->own.is.place)
			continue;
		if (there)
			note(c, there);
		/* A holder behind that one has waited for it. */
		c->doubt = !there && !c->gone && !exclusive &&
			   !(any && c->is.mode == LOCK_EXCLUSIVE) &&
			   (may_hold(c) || (!c->is.foreign && c->is.state == CONTENDER_WAITING));
		any = any || may_hold(c) || c->is.state == CONTENDER_RELEASED;
		exclusive = exclusive || (any && c->is.mode == LOCK_EXCLUSIVE);
	}
}

/* Reads what was written since, up to the deletion of each. */
static void read_history(struct etcd_lock *e, struct deadline deadline)
{
	json_t *request = watch(e->from, e->to, e->seen.revision + 1);
	char *text = json_dumps(request, JSON_COMPACT);
	enum lock_result result = LOCK_FAILED;
	struct gateway stream;

	gateway_open_beside(&stream, &e->gateway);
	if (text && gateway_stream(&stream, "v3/watch", text, deadline))
		result = LOCK_BUSY;
	while (result == LOCK_BUSY)
		result = read_line(e, &stream, ends_history, deadline);
	gateway_close(&stream);
	free(text);
	json_decref(request);
}

bool etcd_heed_vanished(struct lock *lock, const struct contenders *all, struct deadline deadline)
{
	struct etcd_lock *e = (struct etcd_lock *)lock;

	find_vanished(e, (const struct queue *)all);
	if (has_doubt(e))
		read_history(e, deadline_within(deadline, OPEN_LIMIT));
	for (size_t i = 0; i < e->seen.all.count; i++) {
		struct etcd_contender *c = queue_at(&e->seen, i);

		if (!c->doubt) /* else it is compacted, or there was no answer */
			continue;
		/* It may have been a holder whose lease was revoked: that one has been told, and
		 * stops its COMMAND. As likely it has released the lock. */
		c->is.state = CONTENDER_HOLDING;
		c->until = number_least(trust_until(c), clock_now() + DOUBT_LIMIT);
		note_deletion(e, c);
	}
	return clock_now() < e->not_before;
}

/* --- Waiting --------------------------------------------------------------------------------- */

/* The first lease, of the whole TTL, is put by: the place gets a short one. LOCK_GRANTED: ask. */
static enum lock_result shorten(struct etcd_lock *e, struct deadline deadline)
{
	nanos now = clock_now();
	struct failure failure;
	struct queue queue = {0};
	int64_t lease = 0;
	bool done = false;
	enum lock_result result = etcd_grant(e, &lease, ETCD_PLACE_TTL, deadline, &failure);

	if (result == LOCK_GRANTED)
		result = etcd_transact(e,
			json_pack("[o]", etcd_when(e->key, "CREATE", e->own.is.place)),
			json_pack("[o]", etcd_put(e->key, etcd_value(e, CONTENDER_WAITING), lease)),
			NULL, deadline, &done, &queue, &failure);
	queue_free(&queue);
	if (!done) /* the place is gone: ask */
		return result == LOCK_GONE ? LOCK_GRANTED : result;
	e->spare = e->own.lease;
	e->spare_at = e->proved_at;
	e->own.lease = lease;
	e->kept_at = now;
	return LOCK_BUSY;
}

/* The next in line gets a lease to claim with. */
static void refresh_spare(struct etcd_lock *e, struct deadline deadline)
{
	nanos age = etcd_seconds_first(e) * NANOS_PER_SEC / SPARE_PART;
	struct failure unheard;
	int64_t old = e->spare;

	if (!e->alone || (old != 0 && clock_now() - e->spare_at < age))
		return;
	e->spare_at = clock_now();
	e->spare = 0;
	etcd_grant(e, &e->spare, etcd_seconds_first(e), deadline, &unheard);
	if (old != 0)
		etcd_revoke(e, old, deadline, &unheard);
}

/* What the last request to keep the place was answered, and the next one. The answer is awaited no
 * sooner than it matters, so that nobody is woken for it. */
static enum lock_result keep_place(struct etcd_lock *e, struct deadline deadline)
{
	char *text = e->keep_text;
	json_t *answer = NULL;
	struct failure failure;
	enum lock_result result = LOCK_GRANTED;

	if (*text) {
		result = gateway_receive(&e->gateway, deadline, &answer, &failure);
		text[0] = '\0';
		if (result == LOCK_GRANTED &&
			json_number(json_object_get(answer, "result"), "TTL") <= 0)
			result = LOCK_GONE;
		json_decref(answer);
	}
	if (result == LOCK_GONE) /* the place is gone: ask */
		return LOCK_GRANTED;
	if (result != LOCK_GRANTED)
		return result;
	refresh_spare(e, deadline);
	e->kept_at = clock_now();
	snprintf(text, sizeof(e->keep_text), "{\"ID\":%" PRId64 "}", e->own.lease);
	return gateway_send(&e->gateway, "v3/lease/keepalive", text) ? LOCK_BUSY : LOCK_FAILED;
}

/* A late waiter does not know since when the holder has its lease. */
static void date_holder(struct etcd_lock *e, struct deadline deadline)
{
	struct etcd_contender *c = e->alone ? queue_find(&e->seen, e->obstacle) : NULL;
	int64_t ms = c && may_hold(c) ? etcd_lease_ms(&e->gateway, c->lease, deadline) : 0;
	nanos until = clock_now() + (ms + 1000) * NANOS_PER_MS; /* it is cut to whole seconds */

	if (ms > 0 && until < c->until)
		c->until = until;
}

static enum lock_result wait_by_stream(struct etcd_lock *e, struct deadline deadline)
{
	nanos turn = e->not_before > clock_now() ? e->not_before : NANOS_NEVER;
	enum lock_result result = LOCK_BUSY;

	while (result == LOCK_BUSY) {
		struct deadline limit = deadline;
		nanos next = number_least(e->kept_at + KEEP_EVERY, turn);

		if (next < limit.until)
			limit = (struct deadline){next, deadline.cancel_fd, 0};
		result = read_line(e, &e->stream, ends_wait, limit);
		if (result != LOCK_TIMEOUT || deadline_is_over(&deadline))
			continue;
		result = clock_now() >= turn ? LOCK_GRANTED
					     : keep_place(e, deadline_within(deadline, KEEP_LIMIT));
		if (result == LOCK_TIMEOUT && !deadline_is_over(&deadline))
			result = LOCK_FAILED;
	}
	return result;
}

/* LOCK_BUSY: the watch is there, and what else a wait begins with is done. */
static enum lock_result begin_wait(struct etcd_lock *e, struct deadline deadline)
{
	enum lock_result result = LOCK_BUSY;

	e->stream_text = watch_text(e);
	gateway_open_beside(&e->stream, &e->gateway);
	if (!e->stream_text || !gateway_stream(&e->stream, "v3/watch", e->stream_text,
				       deadline_within(deadline, OPEN_LIMIT)))
		return LOCK_FAILED;
	if (e->kept_at == 0)
		result = shorten(e, deadline);
	if (result == LOCK_BUSY) {
		date_holder(e, deadline_within(deadline, KEEP_LIMIT));
		refresh_spare(e, deadline_within(deadline, KEEP_LIMIT));
	}
	return result;
}

void etcd_wait_stop(struct etcd_lock *e)
{
	if (!e->stream_text)
		return;
	gateway_close(&e->stream);
	free(e->stream_text);
	e->stream_text = NULL;
	gateway_stop(&e->gateway);
	e->keep_text[0] = '\0';
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
	enum lock_result result = e->stream_text ? LOCK_BUSY : begin_wait(e, deadline);
	bool begun = result == LOCK_BUSY;

	if (!e->stream_text) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return LOCK_FAILED;
	}
	if (begun)
		result = wait_by_stream(e, deadline);
	if (!begun || (result != LOCK_CANCELLED && result != LOCK_TIMEOUT))
		etcd_wait_stop(e);
	return result == LOCK_FAILED ? turn_elsewhere(e, deadline) : result;
}

/* --- Holding --------------------------------------------------------------------------------- */

/* Until the key is another's or gone, or the end: true. */
static bool watch_own(struct etcd_lock *e, bool again, struct deadline deadline)
{
	struct etcd_guard *guard = &e->guard;
	enum lock_result result = LOCK_BUSY;

	if (!gateway_stream(&guard->gateway, "v3/watch", guard->text[again],
		    deadline_within(deadline, OPEN_LIMIT)))
		result = LOCK_FAILED;
	while (result == LOCK_BUSY) {
		result = read_line(e, &guard->gateway, ends_hold, deadline);
		/* What was missed meanwhile a renewal finds. */
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
	bool goes_on = deadline_pause(deadline, GUARD_DELAY), again = false;

	while (goes_on && !watch_own(e, again, deadline)) {
		again = true;
		e->guard.gateway.at = (e->guard.gateway.at + 1) % e->server->endpoint_count;
		goes_on = deadline_pause(deadline, AGAIN);
	}
	return NULL;
}

static bool start(struct etcd_lock *e)
{
	struct etcd_guard *guard = &e->guard;
	sigset_t all, before;
	bool done;

	for (int again = 0; again < 2; again++) {
		json_t *request = watch(e->key, NULL, again ? 0 : e->own.mod + 1);

		guard->text[again] = json_dumps(request, JSON_COMPACT);
		json_decref(request);
	}
	guard->news_fd = wakeup_open();
	guard->stop_fd = wakeup_open();
	gateway_open_beside(&guard->gateway, &e->gateway);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	done = guard->text[0] && guard->text[1] && guard->news_fd >= 0 && guard->stop_fd >= 0 &&
	       pthread_create(&guard->thread, NULL, run_guard, e) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return done;
}

static void close_guard(struct etcd_guard *guard)
{
	gateway_close(&guard->gateway);
	free(guard->text[0]);
	free(guard->text[1]);
	guard->text[0] = guard->text[1] = NULL;
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
