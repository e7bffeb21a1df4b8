#include "zookeeper/zookeeper_lock.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/token.h"
#include "net/server.h"

#define TRIES 8 /* of a change that others keep from happening by theirs */

/* --- What there is --------------------------------------------------------------------------- */

void zookeeper_path(const char *lock, const char *node, char path[static NODE_SIZE])
{
	strlcpy(path, lock, NODE_SIZE);
	strlcat(path, "/", NODE_SIZE);
	strlcat(path, node, NODE_SIZE);
}

enum lock_result zookeeper_attach(
	struct zookeeper_lock *z, int64_t ttl_ms, struct deadline deadline, struct failure *failure)
{
	enum lock_result result = LOCK_GRANTED;

	if (!z->session.handle)
		result = session_attach(&z->session, ttl_ms, deadline, failure);
	if (result == LOCK_LOST && !z->lock.asked)
		result = session_attach(&z->session, ttl_ms, deadline, failure);
	return result;
}

enum lock_result zookeeper_read(struct session *session, const char *path, struct deadline deadline,
	struct queue *queue, struct failure *failure)
{
	enum lock_result result;

	*queue = (struct queue){0};
	session_sync(session, path);
	session_children(session, path, false);
	result = session_await(session, deadline, failure);
	if (result == LOCK_GRANTED && !queue_read(queue, &session->reply[1], failure))
		result = LOCK_FAILED;
	return result;
}

enum lock_result zookeeper_look(struct session *session, const char *path, struct deadline deadline,
	struct record *record, struct failure *failure)
{
	enum lock_result result;

	session_get(session, path, false);
	result = session_await(session, deadline, failure);
	if (result != LOCK_GRANTED)
		return result;
	record_read(record, &session->reply[0]);
	if (record->format > LOCK_FORMAT) {
		lock_fail_format(failure, session->server->text, record->format);
		return LOCK_FAILED;
	}
	return session->reply[0].rc == ZOK ? LOCK_GRANTED : LOCK_GONE;
}

enum lock_result zookeeper_look_at(struct session *session, const char *lock,
	struct zookeeper_contender *c, struct deadline deadline, struct failure *failure)
{
	enum lock_result result;
	struct record record;
	char path[NODE_SIZE];

	if (c->record)
		return LOCK_GRANTED;
	zookeeper_path(lock, c->node, path);
	result = zookeeper_look(session, path, deadline, &record, failure);
	if (result == LOCK_GRANTED && !record_note(c, &record)) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return LOCK_FAILED;
	}
	return result;
}

void zookeeper_record(const struct zookeeper_lock *z, bool over, char text[static DATA_SIZE])
{
	const struct record record = {.hold = z->request.hold,
		.over = over,
		.ttl_ms = z->session.ttl_ms,
		.since_us = z->since_us,
		.session = z->session.id};

	record_write(&record, z->request.self, text);
}

void zookeeper_begin(struct lock *lock)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;

	z->own[0] = z->outer[0] = '\0';
	z->state = ZOOKEEPER_NONE;
	z->lock.asked = false;
	token_make(z->request.self, z->lock.token);
	queue_id(z->lock.token, z->id);
}

/* --- Another's session ------------------------------------------------------------------------ */

/* The session of a record, attached by us with that TTL. */
static enum lock_result borrow(const struct zookeeper_lock *z, const struct record *record,
	int64_t ttl_ms, struct deadline deadline, struct session *session, struct failure *failure)
{
	*session = (struct session){
		.server = z->session.server, .at = z->session.at, .fd = -1, .id = record->session};
	return session_attach(session, ttl_ms, deadline, failure);
}

/* A write that changes nothing: ZNONODE if the node is not there. */
static enum lock_result prove(struct session *session, const char *path, bool watch,
	struct deadline deadline, struct failure *failure)
{
	zoo_op_result_t found = {0};
	enum lock_result result;
	zoo_op_t check;

	zoo_check_op_init(&check, path, -1);
	session_multi(session, 1, &check, &found);
	session_get(session, path, watch);
	result = session_await(session, deadline, failure);
	if (result == LOCK_GRANTED && session->reply[0].rc != ZOK)
		return LOCK_LOST;
	return result;
}

/* --- Renewing ----------------------------------------------------------------------------------
 */

/* A holder inside another also keeps the place of that one, once its owner has released it. */
static enum lock_result renew_outer(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	struct session session = {.fd = -1};
	struct record record;
	enum lock_result result = zookeeper_look(&z->session, z->outer, deadline, &record, failure);

	if (result == LOCK_GRANTED && record.over) {
		result = borrow(z, &record, z->session.ttl_ms, deadline, &session, failure);
		if (result == LOCK_GRANTED)
			result = prove(&session, z->outer, false, deadline, failure);
		session_close(&session);
	}
	return result == LOCK_GONE ? LOCK_LOST : result;
}

/* The owner is another process than the one on record. If another has written our node, to be
 * inside, that stays so. */
static enum lock_result pass_on(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	char text[DATA_SIZE];
	enum lock_result result;

	zookeeper_record(z, false, text);
	session_set(&z->session, z->own, text, z->state == ZOOKEEPER_INSIDE ? -1 : z->version);
	result = session_await(&z->session, deadline, failure);
	if (result == LOCK_GRANTED && z->session.reply[0].rc == ZOK) {
		z->version = z->session.reply[0].stat.version;
		z->named = z->request.self->pid;
	}
	return result;
}

void zookeeper_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;

	answer->asked_at = clock_now();
	answer->fence = z->fence;
	answer->result = LOCK_LOST;
	if (z->state != ZOOKEEPER_HOLDING && z->state != ZOOKEEPER_INSIDE)
		return;
	answer->result = session_attach(&z->session, z->request.ttl_ms, deadline, &answer->failure);
	answer->asked_at = z->session.attached_at;
	if (answer->result == LOCK_GRANTED && z->named != z->request.self->pid)
		answer->result = pass_on(z, deadline, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		answer->result = prove(&z->session, z->own, true, deadline, &answer->failure);
	if (answer->result == LOCK_GRANTED && z->state == ZOOKEEPER_INSIDE)
		answer->result = renew_outer(z, deadline, &answer->failure);
	answer->ttl_ms = z->session.ttl_ms;
}

/* --- Releasing ---------------------------------------------------------------------------------
 */

/* Into the answer: the pids of those inside the contender at that place; and their longest TTL. */
static enum lock_result list_inside(struct zookeeper_lock *z, int64_t place,
	struct deadline deadline, struct lock_answer *answer)
{
	struct queue queue;
	enum lock_result result =
		zookeeper_read(&z->session, z->path, deadline, &queue, &answer->failure);

	answer->inside_count = 0;
	if (result == LOCK_GRANTED)
		result =
			contest_list_inside(&z->contest, &queue.all, place, NULL, deadline, answer);
	z->inside_ttl_ms = 0;
	for (size_t i = 0; i < queue.all.count; i++) {
		const struct contender *c = contenders_at(&queue.all, i);

		if (contender_is_inside(c, place) && c->ttl_ms > z->inside_ttl_ms)
			z->inside_ttl_ms = c->ttl_ms;
	}
	queue_free(&queue);
	return result;
}

/* The node stays until each of those inside has renewed it (renew_outer), and its session for so
 * long. If the session has only begun, another TTL waits until it counts. */
static enum lock_result keep(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	char text[DATA_SIZE];
	int64_t ttl = z->request.ttl_ms > z->inside_ttl_ms ? z->request.ttl_ms : z->inside_ttl_ms;
	nanos settling = session_settles_at(&z->session) - clock_now();
	enum lock_result result;

	if (ttl != z->session.ttl_ms && settling > 0 && !deadline_pause(deadline, settling))
		return LOCK_CANCELLED;
	result = session_attach(&z->session, ttl, deadline, failure);
	if (result != LOCK_GRANTED)
		return result;
	zookeeper_record(z, true, text);
	session_set(&z->session, z->own, text, z->version);
	result = session_await(&z->session, deadline, failure);
	if (result == LOCK_GRANTED)
		z->kept = z->session.reply[0].rc == ZOK;
	return result;
}

static enum lock_result release_holder(
	struct zookeeper_lock *z, struct deadline deadline, struct lock_answer *answer)
{
	enum lock_result result = LOCK_GRANTED;

	for (int i = 0; i < TRIES && result == LOCK_GRANTED; i++) {
		if (answer->inside_count > 0) {
			result = keep(z, deadline, &answer->failure);
		} else {
			session_delete(&z->session, z->own, z->version);
			result = session_await(&z->session, deadline, &answer->failure);
		}
		if (result != LOCK_GRANTED)
			break;
		if (z->session.reply[0].rc == ZOK)
			return LOCK_RELEASED;
		if (z->session.reply[0].rc == ZNONODE)
			return LOCK_LOST;
		/* Another one has written our node, to be inside. */
		session_get(&z->session, z->own, false);
		result = session_await(&z->session, deadline, &answer->failure);
		z->version = z->session.reply[0].stat.version;
		if (result == LOCK_GRANTED)
			result = list_inside(z, queue_place(z->own), deadline, answer);
	}
	return result == LOCK_GRANTED ? LOCK_TIMEOUT : result;
}

/* The last inside one that its owner has released ends it. */
static enum lock_result release_inside(
	struct zookeeper_lock *z, struct deadline deadline, struct lock_answer *answer)
{
	struct record record;
	enum lock_result result, own;

	session_delete(&z->session, z->own, -1);
	result = session_await(&z->session, deadline, &answer->failure);
	if (result != LOCK_GRANTED)
		return result;
	own = z->session.reply[0].rc == ZOK ? LOCK_RELEASED : LOCK_LOST;
	result = zookeeper_look(&z->session, z->outer, deadline, &record, &answer->failure);
	answer->around = result == LOCK_GRANTED && !record.over;
	if (result == LOCK_GONE)
		own = LOCK_LOST;
	if (result == LOCK_GRANTED && record.over)
		result = list_inside(z, queue_place(z->outer), deadline, answer);
	if (result == LOCK_GRANTED && record.over && answer->inside_count == 0) {
		session_delete(&z->session, z->outer, -1);
		session_await(&z->session, deadline, &answer->failure);
	}
	answer->inside_count = 0;
	return own;
}

/* A waiter's node, or one of which we have not heard: any with our id. */
static enum lock_result withdraw(
	struct zookeeper_lock *z, struct deadline deadline, struct lock_answer *answer)
{
	struct queue queue = {0};
	enum lock_result result = LOCK_GRANTED;
	const struct contender *c;

	if (z->own[0] == '\0') {
		result = zookeeper_read(&z->session, z->path, deadline, &queue, &answer->failure);
		c = contenders_find(&queue.all, z->id, false);
		c = c ? c : contenders_find(&queue.all, z->id, true);
		if (c)
			zookeeper_path(
				z->path, ((const struct zookeeper_contender *)c)->node, z->own);
		queue_free(&queue);
	}
	if (result != LOCK_GRANTED || z->own[0] == '\0')
		return result == LOCK_GRANTED ? LOCK_GONE : result;
	session_delete(&z->session, z->own, -1);
	result = session_await(&z->session, deadline, &answer->failure);
	return result == LOCK_GRANTED ? LOCK_RELEASED : result;
}

void zookeeper_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;
	bool holds = z->state == ZOOKEEPER_HOLDING || z->state == ZOOKEEPER_INSIDE;
	bool asked = z->lock.asked;

	(void)release_terms; /* no success is on record, and none is kept by --at-least */
	answer->result = LOCK_GRANTED;
	if (holds || asked)
		answer->result = zookeeper_attach(z, holds ? z->request.ttl_ms : ZOOKEEPER_WAIT_TTL,
			deadline, &answer->failure);
	if (answer->result == LOCK_LOST && !holds)
		answer->result = LOCK_GONE; /* our node went with the session */
	if (answer->result != LOCK_GRANTED)
		;
	else if (z->state == ZOOKEEPER_HOLDING)
		answer->result = release_holder(z, deadline, answer);
	else if (z->state == ZOOKEEPER_INSIDE)
		answer->result = release_inside(z, deadline, answer);
	else
		answer->result = asked ? withdraw(z, deadline, answer) : LOCK_GONE;
	if (answer->result == LOCK_RELEASED || answer->result == LOCK_LOST ||
		answer->result == LOCK_GONE) {
		if (z->kept)
			session_leave(&z->session);
		session_end(&z->session); /* else the servers would keep it for its TTL */
		z->kept = false;
		zookeeper_begin(lock);
	}
}

/* --- By force ----------------------------------------------------------------------------------
 */

/* LOCK_GONE: it has ended, or is not the one that is meant. */
static enum lock_result end_holder(struct zookeeper_lock *z, const struct queue *queue,
	struct zookeeper_contender *c, struct deadline deadline, struct failure *failure)
{
	enum lock_result result = zookeeper_look_at(&z->session, z->path, c, deadline, failure);
	char path[NODE_SIZE];

	if (result != LOCK_GRANTED)
		return result;
	if (!contender_has_fence(&queue->all, &c->is, z->request.fence))
		return LOCK_GONE;
	zookeeper_path(z->path, c->node, path);
	session_delete(&z->session, path, -1);
	return session_await(&z->session, deadline, failure);
}

void zookeeper_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;
	struct queue queue = {0};
	enum lock_result result =
		zookeeper_attach(z, z->request.ttl_ms, deadline, &answer->failure);

	if (result == LOCK_GRANTED)
		result = zookeeper_read(&z->session, z->path, deadline, &queue, &answer->failure);
	answer->result = result == LOCK_GRANTED ? LOCK_GONE : result;
	for (size_t i = 0; i < queue.all.count && (result == LOCK_GRANTED || result == LOCK_GONE);
		i++) {
		struct zookeeper_contender *c = queue_at(&queue, i);

		if (c->is.state == CONTENDER_WAITING)
			continue;
		result = end_holder(z, &queue, c, deadline, &answer->failure);
		if (result == LOCK_GRANTED && c->is.state != CONTENDER_INSIDE)
			answer->result = LOCK_RELEASED;
		else if (result != LOCK_GRANTED && result != LOCK_GONE)
			answer->result = result;
		if (result == LOCK_GRANTED)
			contest_tell(&z->contest, &c->is, tell, context);
	}
	queue_free(&queue);
}
