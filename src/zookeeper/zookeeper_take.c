/* Taking a lock: a node among the contenders, and the proof that the session lives. */
#include <bsd/string.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "net/server.h"
#include "zookeeper/zookeeper_lock.h"

#define FRESH_PART 4 /* of the TTL: a session attached longer ago is attached anew */
#define AGAIN      (300 * NANOS_PER_MS)
#define LOOK_LIMIT NANOS_PER_SEC

/* --- A grant --------------------------------------------------------------------------------- */

/* Whether the session was attached for a holder, not for a waiter. */
static bool is_whole(const struct zookeeper_lock *z)
{
	return z->session.wanted_ms == z->request.ttl_ms;
}

/* The servers decide how long a session may last: what the command line asks for, or not. */
static bool suits(const struct zookeeper_lock *z, struct lock_answer *answer)
{
	int64_t wanted = z->request.ttl_ms, had = z->session.ttl_ms;

	if (had == wanted || !z->request.ttl_named)
		return true;
	answer->result = LOCK_FAILED;
	return failure_set(&answer->failure, EXIT_CONFIG,
		"such a TTL (-t) cannot be had from %s: a session lasts %" PRId64
		" ms there at %s (%sSessionTimeout)",
		z->session.server->text, had, had < wanted ? "most" : "least",
		had < wanted ? "max" : "min");
}

static void accept_grant(struct zookeeper_lock *z, struct lock_answer *answer)
{
	z->state = ZOOKEEPER_HOLDING;
	z->named = z->request.self->pid;
	answer->result = LOCK_GRANTED;
	answer->fence = z->fence;
	answer->asked_at = z->session.attached_at;
	answer->granted_at = clock_now();
	answer->ttl_ms = z->session.ttl_ms;
}

/* A contender that is in the way after all is waited for. proved: the session is known to live for
 * the TTL. */
static void decide_again(struct zookeeper_lock *z, struct zookeeper_reply *children,
	const struct zookeeper_reply *own, bool proved, struct deadline deadline,
	struct lock_answer *answer)
{
	struct zookeeper_queue queue;

	z->fence = (uint64_t)own->stat.czxid;
	z->proved = proved;
	answer->result = LOCK_FAILED;
	if (zookeeper_queue_read(&queue, children, &answer->failure))
		contest_decide(&z->contest, &queue.all, deadline, answer);
	zookeeper_queue_free(&queue);
}

/* Attached by another server than before, a longer TTL counts only once the former server has told
 * of the shorter one. */
static enum lock_result attach_to_hold(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	size_t before = z->session.at;
	int had = z->session.ttl_ms;
	enum lock_result result =
		zookeeper_session_attach(&z->session, z->request.ttl_ms, deadline, failure);

	if (result != LOCK_GRANTED || z->session.at == before || z->session.ttl_ms <= had)
		return result;
	return deadline_pause(deadline, ZOOKEEPER_SESSION_SETTLES_IN)
		       ? zookeeper_session_attach(&z->session, z->request.ttl_ms, deadline, failure)
		       : LOCK_CANCELLED;
}

/* Nothing was in the way: the session is attached anew, and the grant written, unless that was done
 * before this look. */
static void claim(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;
	char text[DATA_SIZE];
	struct zookeeper_reply *reply = z->session.reply;

	if (z->proved) {
		accept_grant(z, answer);
		return;
	}
	answer->result = attach_to_hold(z, deadline, &answer->failure);
	if (answer->result != LOCK_GRANTED || !suits(z, answer))
		return;
	z->since_us = clock_wall_us();
	zookeeper_own_record(z, text);
	zookeeper_session_set(&z->session, z->own, text);
	zookeeper_session_children(&z->session, z->path, false);
	zookeeper_session_get(&z->session, z->own, true);
	answer->result = zookeeper_session_await(&z->session, deadline, &answer->failure);
	if (answer->result == LOCK_GRANTED && reply[2].rc != ZOK)
		answer->result = LOCK_LOST;
	else if (answer->result == LOCK_GRANTED)
		decide_again(z, &reply[1], &reply[2], true, deadline, answer);
}

/* --- A place --------------------------------------------------------------------------------- */

/* Makes the nodes on the way to the lock's: CHROOT for ever, the lock's own until it is empty. */
static enum lock_result make_parents(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	enum lock_result result = LOCK_GRANTED;
	char path[NODE_SIZE];

	strlcpy(path, z->path, sizeof(path));
	for (char *end = path; end && result == LOCK_GRANTED;) {
		end = strchr(end + 1, '/');
		if (end)
			*end = '\0';
		zookeeper_session_create(
			&z->session, path, "", end ? ZOO_PERSISTENT : ZOO_CONTAINER);
		result = zookeeper_session_await(&z->session, deadline, failure);
		if (end)
			*end = '/';
	}
	return result;
}

/* Our node. LOCK_GONE: what it is to be in was reaped meanwhile. */
static enum lock_result make_node(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	char node[NODE_SIZE], path[NODE_SIZE], text[DATA_SIZE];
	enum lock_result result;

	zookeeper_queue_node(z->session.server, &z->request, z->id, node);
	zookeeper_path(z->path, node, path);
	z->lock.asked = true;
	z->since_us = clock_wall_us();
	zookeeper_own_record(z, text);
	zookeeper_session_create(&z->session, path, text, ZOO_EPHEMERAL | ZOO_SEQUENCE);
	result = zookeeper_session_await(&z->session, deadline, failure);
	if (result != LOCK_GRANTED)
		return result;
	if (z->session.reply[0].rc != ZOK)
		return LOCK_GONE;
	zookeeper_path(z->path, z->session.reply[0].text, z->own);
	z->state = ZOOKEEPER_WAITING;
	return LOCK_GRANTED;
}

/* Whether one behind may want a permit, and wait until ours is written. */
static bool is_awaited(const struct zookeeper_lock *z, const struct zookeeper_reply *children)
{
	for (size_t i = 0; i < children->name_count && z->request.mode == LOCK_PERMITS; i++)
		if (zookeeper_queue_place(children->names[i]) > zookeeper_queue_place(z->own))
			return true;
	return false;
}

static void take_place(
	struct zookeeper_lock *z, struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_reply *reply = z->session.reply;
	bool fresh;

	answer->result = make_node(z, deadline, &answer->failure);
	while (answer->result == LOCK_GONE) {
		answer->result = make_parents(z, deadline, &answer->failure);
		if (answer->result == LOCK_GRANTED)
			answer->result = make_node(z, deadline, &answer->failure);
	}
	if (answer->result == LOCK_GRANTED) {
		zookeeper_session_children(&z->session, z->path, false);
		zookeeper_session_get(&z->session, z->own, true);
		answer->result = zookeeper_session_await(&z->session, deadline, &answer->failure);
	}
	fresh = clock_now() - z->session.attached_at <
		z->session.ttl_ms * NANOS_PER_MS / FRESH_PART;
	if (answer->result == LOCK_GRANTED && reply[1].rc != ZOK)
		answer->result = LOCK_LOST;
	else if (answer->result == LOCK_GRANTED)
		decide_again(z, &reply[0], &reply[1],
			fresh && is_whole(z) && !is_awaited(z, &reply[0]), deadline, answer);
}

/* A waiter that is killed at once may stop the others for no longer than any. */
static void enter(
	struct lock *lock, bool first, struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;

	answer->result = LOCK_GRANTED;
	if (!first)
		answer->result = zookeeper_session_attach(
			&z->session, ZOOKEEPER_WAIT_TTL, deadline, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		take_place(z, deadline, answer);
}

/* --- Busy ------------------------------------------------------------------------------------ */

/* The fingerprint of the contenders' nodes. */
static uint64_t fingerprint(const struct zookeeper_queue *queue)
{
	uint64_t sum = HASH_BASIS;

	for (size_t i = 0; i < queue->all.count; i++)
		sum = hash_text(sum, zookeeper_queue_at(queue, i)->node);
	return sum;
}

static void wait_for(struct lock *lock, struct contenders *all, const struct contender *holder,
	const struct contender *obstacle, struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;

	(void)holder;
	(void)deadline;
	(void)answer;
	z->obstacle[0] = '\0';
	if (obstacle)
		zookeeper_path(
			z->path, ((const struct zookeeper_contender *)obstacle)->node, z->obstacle);
	z->seen = fingerprint((const struct zookeeper_queue *)all);
}

/* --- One attempt ----------------------------------------------------------------------------- */

static enum lock_result look(
	struct lock *lock, struct contender *c, struct deadline deadline, struct failure *failure)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;

	return zookeeper_look_at(
		&z->session, z->path, (struct zookeeper_contender *)c, deadline, failure);
}

/* Perhaps the answer to its creation was lost. */
static struct contender *find_own(struct lock *lock, const struct contenders *all, bool *lost)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;
	struct contender *own = contenders_find(all, z->id);

	*lost = !own && z->own[0] != '\0';
	if (own) {
		zookeeper_path(z->path, ((struct zookeeper_contender *)own)->node, z->own);
		z->state = ZOOKEEPER_WAITING;
	}
	return own;
}

const struct contest_ops zookeeper_contest = {
	.foreign = ZOOKEEPER_FOREIGN,
	.look = look,
	.find_own = find_own,
	.enter = enter,
	.claim = claim,
	.wait_for = wait_for,
	.end = zookeeper_end,
};

/* This waiter wants a place in any case, and has none: what the server itself knows will do. */
static void enter_quickly(
	struct zookeeper_lock *z, struct deadline deadline, struct lock_answer *answer)
{
	zookeeper_session_children(&z->session, z->path, false);
	answer->result = zookeeper_session_await(&z->session, deadline, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		enter(&z->lock, z->session.reply[0].name_count == 0, deadline, answer);
}

static void attempt(struct zookeeper_lock *z, struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_queue queue = {0};

	answer->asked_at = clock_now();
	z->watches = z->proved = false;
	/* A session begins as long as a holder's: a longer TTL might not count at once. */
	answer->result = zookeeper_attach(z,
		z->state == ZOOKEEPER_WAITING && z->session.id.client_id != 0 ? ZOOKEEPER_WAIT_TTL
									      : z->request.ttl_ms,
		deadline, &answer->failure);
	if (answer->result != LOCK_GRANTED || (is_whole(z) && !suits(z, answer)))
		return;
	if (!z->lock.asked && z->request.queues) {
		enter_quickly(z, deadline, answer);
		return;
	}
	answer->result = zookeeper_read(&z->session, z->path, deadline, &queue, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		contest_decide(&z->contest, &queue.all, deadline, answer);
	zookeeper_queue_free(&queue);
}

/* If the connection broke in the middle, our node may be there: it is looked for. If that takes
 * long, the front is to know. */
void zookeeper_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;
	nanos until = clock_now() + LOOK_LIMIT;

	do
		attempt(z, deadline, answer);
	while (answer->result == LOCK_FAILED && answer->failure.code == EXIT_UNREACHABLE &&
		z->lock.asked && clock_now() < until && deadline_pause(deadline, AGAIN) &&
		!deadline_is_over(&deadline));
	if (answer->result == LOCK_LOST)
		zookeeper_begin(lock);
}

/* --- Waiting --------------------------------------------------------------------------------- */

/* Whether the contenders are those that were there at the last attempt. */
static bool is_as_seen(
	const struct zookeeper_lock *z, struct zookeeper_reply *children, struct failure *failure)
{
	struct zookeeper_queue queue;
	bool same =
		zookeeper_queue_read(&queue, children, failure) && fingerprint(&queue) == z->seen;

	zookeeper_queue_free(&queue);
	return same;
}

/* Sets the watches: on what is in the way, and on our own node. LOCK_GRANTED: ask. LOCK_BUSY: wait.
 * A waiter for a permit before us writes its node when it has one. If it has none yet, the
 * contenders tell so, as they are read behind the watch. */
static enum lock_result watch(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	bool any = z->obstacle[0] == '\0', all = any || z->request.mode == LOCK_PERMITS;
	struct zookeeper_reply *reply = z->session.reply;
	enum lock_result result;

	z->session.told = false;
	zookeeper_session_get(&z->session, z->own, true);
	if (!any)
		zookeeper_session_get(&z->session, z->obstacle, true);
	if (all)
		zookeeper_session_children(&z->session, z->path, any);
	result = zookeeper_session_await(&z->session, deadline, failure);
	if (result != LOCK_GRANTED)
		return result;
	for (int i = 0; i < 1 + !any + all; i++)
		if (reply[i].rc != ZOK)
			return LOCK_GRANTED;
	return !all || is_as_seen(z, &reply[1 + !any], failure) ? LOCK_BUSY : LOCK_GRANTED;
}

/* Any request has the leader told of the TTL that the session has at our server. */
static enum lock_result tell_again(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	enum lock_result result;

	z->tell_again_at = 0;
	zookeeper_session_get(&z->session, z->own, false);
	result = zookeeper_session_await(&z->session, deadline, failure);
	return result == LOCK_GRANTED && z->session.reply[0].rc == ZOK ? LOCK_BUSY : result;
}

static enum lock_result await_watch(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	const struct deadline soon = {.until = z->tell_again_at, .cancel_fd = deadline.cancel_fd};
	enum lock_result result;

	if (z->tell_again_at != 0 && z->tell_again_at < deadline.until) {
		result = zookeeper_session_listen(&z->session, soon, failure);
		if (result == LOCK_TIMEOUT)
			result = tell_again(z, deadline, failure);
		if (result != LOCK_BUSY)
			return result;
	}
	return zookeeper_session_listen(&z->session, deadline, failure);
}

/* As watch. */
static enum lock_result begin_wait(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	enum lock_result result = LOCK_GRANTED;

	if (!z->session.handle || z->session.ttl_ms > ZOOKEEPER_WAIT_TTL)
		result = zookeeper_session_attach(
			&z->session, ZOOKEEPER_WAIT_TTL, deadline, failure);
	if (clock_now() < zookeeper_session_settles_at(&z->session))
		z->tell_again_at = zookeeper_session_settles_at(&z->session);
	return result == LOCK_GRANTED ? watch(z, deadline, failure) : result;
}

/* Without a place nothing keeps it from asking again; with -n it is not asked at all. If the wait
 * is cut short, its watches stay for the next one. */
enum lock_result zookeeper_wait(
	struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;
	enum lock_result result = LOCK_BUSY;

	if (!z->watches || !z->session.handle)
		result = begin_wait(z, deadline, failure);
	z->watches = result == LOCK_BUSY;
	if (z->watches)
		result = await_watch(z, deadline, failure);
	if (result != LOCK_CANCELLED && result != LOCK_TIMEOUT)
		z->watches = false;
	if (result == LOCK_FAILED && failure->code == EXIT_UNREACHABLE)
		result = !deadline_pause(deadline, AGAIN) ? LOCK_CANCELLED
			 : deadline_is_over(&deadline)    ? LOCK_TIMEOUT
							  : LOCK_GRANTED;
	return result == LOCK_LOST ? LOCK_GRANTED : result;
}
