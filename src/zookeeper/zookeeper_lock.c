/* A lock in ZooKeeper, from 3.5 on, and the row of the service. */
#include "zookeeper/zookeeper_lock.h"

#include <bsd/string.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/token.h"
#include "net/server.h"

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
		result = zookeeper_session_attach(&z->session, ttl_ms, deadline, failure);
	if (result == LOCK_LOST && !z->lock.asked)
		result = zookeeper_session_attach(&z->session, ttl_ms, deadline, failure);
	return result;
}

enum lock_result zookeeper_read(struct zookeeper_session *session, const char *path,
	struct deadline deadline, struct zookeeper_queue *queue, struct failure *failure)
{
	enum lock_result result;

	*queue = (struct zookeeper_queue){0};
	zookeeper_session_sync(session, path);
	zookeeper_session_children(session, path, false);
	result = zookeeper_session_await(session, deadline, failure);
	if (result == LOCK_GRANTED && !zookeeper_queue_read(queue, &session->reply[1], failure))
		result = LOCK_FAILED;
	return result;
}

/* Reads the record of a node; LOCK_GONE: it is not there any more. */
static enum lock_result look(struct zookeeper_session *session, const char *path,
	struct deadline deadline, struct zookeeper_record *record, struct failure *failure)
{
	enum lock_result result;

	zookeeper_session_get(session, path, false);
	result = zookeeper_session_await(session, deadline, failure);
	if (result != LOCK_GRANTED)
		return result;
	zookeeper_record_read(record, &session->reply[0]);
	if (record->format > LOCK_FORMAT) {
		lock_fail_format(failure, session->server->text, record->format);
		return LOCK_FAILED;
	}
	return session->reply[0].rc == ZOK ? LOCK_GRANTED : LOCK_GONE;
}

enum lock_result zookeeper_look_at(struct zookeeper_session *session, const char *lock,
	struct zookeeper_contender *c, struct deadline deadline, struct failure *failure)
{
	enum lock_result result;
	struct zookeeper_record record;
	char path[NODE_SIZE];

	if (c->record)
		return LOCK_GRANTED;
	zookeeper_path(lock, c->node, path);
	result = look(session, path, deadline, &record, failure);
	if (result == LOCK_GRANTED && !zookeeper_record_note(c, &record)) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return LOCK_FAILED;
	}
	return result;
}

void zookeeper_own_record(const struct zookeeper_lock *z, char text[static DATA_SIZE])
{
	const struct zookeeper_record record = {
		.ttl_ms = z->session.ttl_ms, .since_us = z->since_us, .session = z->session.id};

	zookeeper_record_write(&record, z->request.self, text);
}

void zookeeper_begin(struct lock *lock)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;

	z->own[0] = '\0';
	z->state = ZOOKEEPER_NONE;
	z->lock.asked = false;
	token_make(z->request.self, z->lock.token);
	zookeeper_queue_id(z->lock.token, z->id);
}

/* A write that changes nothing; and the node is watched. LOCK_LOST: it is not there. */
static enum lock_result prove(struct zookeeper_session *session, const char *path,
	struct deadline deadline, struct failure *failure)
{
	zoo_op_result_t found = {0};
	enum lock_result result;
	zoo_op_t check;

	zoo_check_op_init(&check, path, -1);
	zookeeper_session_multi(session, 1, &check, &found);
	zookeeper_session_get(session, path, true);
	result = zookeeper_session_await(session, deadline, failure);
	if (result == LOCK_GRANTED && session->reply[0].rc != ZOK)
		return LOCK_LOST;
	return result;
}

/* --- Taking over ------------------------------------------------------------------------------ */

/* The own node: any with our id, unless it is known. LOCK_GRANTED, or LOCK_GONE. */
static enum lock_result find_own(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	struct zookeeper_queue queue = {0};
	enum lock_result result = LOCK_GRANTED;
	const struct contender *c;

	if (z->own[0] == '\0') {
		result = zookeeper_read(&z->session, z->path, deadline, &queue, failure);
		c = contenders_find(&queue.all, z->id);
		if (c)
			zookeeper_path(
				z->path, ((const struct zookeeper_contender *)c)->node, z->own);
		zookeeper_queue_free(&queue);
	}
	return result == LOCK_GRANTED && z->own[0] == '\0' ? LOCK_GONE : result;
}

/* The session of the holder that is dead, which its node names, becomes ours. LOCK_GRANTED, or
 * LOCK_GONE. */
static enum lock_result adopt(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	enum lock_result result = zookeeper_attach(z, ZOOKEEPER_WAIT_TTL, deadline, failure);
	struct zookeeper_record record;

	if (result == LOCK_GRANTED)
		result = find_own(z, deadline, failure);
	if (result == LOCK_GRANTED)
		result = look(&z->session, z->own, deadline, &record, failure);
	if (result != LOCK_GRANTED)
		return result;
	zookeeper_session_end(&z->session);
	z->session.id = record.session;
	z->since_us = record.since_us;
	z->state = ZOOKEEPER_HOLDING;
	z->lock.orphaned = false;
	return LOCK_GRANTED;
}

/* --- Renewing --------------------------------------------------------------------------------- */

/* The owner is another process than the one on record. */
static enum lock_result pass_on(
	struct zookeeper_lock *z, struct deadline deadline, struct failure *failure)
{
	char text[DATA_SIZE];
	enum lock_result result;

	zookeeper_own_record(z, text);
	zookeeper_session_set(&z->session, z->own, text);
	result = zookeeper_session_await(&z->session, deadline, failure);
	if (result == LOCK_GRANTED && z->session.reply[0].rc == ZOK)
		z->named = z->request.self->pid;
	return result;
}

static void zookeeper_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;

	answer->asked_at = clock_now();
	answer->result =
		lock_is_heir(&z->lock) ? adopt(z, deadline, &answer->failure) : LOCK_GRANTED;
	answer->fence = lock->fence;
	if (answer->result == LOCK_GONE ||
		(!lock_is_heir(&z->lock) && z->state != ZOOKEEPER_HOLDING))
		answer->result = LOCK_LOST;
	if (answer->result != LOCK_GRANTED)
		return;
	answer->result = zookeeper_session_attach(
		&z->session, z->request.ttl_ms, deadline, &answer->failure);
	answer->asked_at = z->session.attached_at;
	if (answer->result == LOCK_GRANTED && z->named != z->request.self->pid)
		answer->result = pass_on(z, deadline, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		answer->result = prove(&z->session, z->own, deadline, &answer->failure);
	answer->ttl_ms = z->session.ttl_ms;
}

/* --- Releasing -------------------------------------------------------------------------------- */

/* LOCK_GRANTED; LOCK_GONE: it is not there any more. */
static enum lock_result delete_node(struct zookeeper_lock *z, const char *path,
	struct deadline deadline, struct failure *failure)
{
	enum lock_result result;

	zookeeper_session_delete(&z->session, path);
	result = zookeeper_session_await(&z->session, deadline, failure);
	return result == LOCK_GRANTED && z->session.reply[0].rc != ZOK ? LOCK_GONE : result;
}

static void zookeeper_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;
	bool holds = z->state == ZOOKEEPER_HOLDING;

	(void)release_terms; /* no success is on record, and none is kept by --at-least */
	answer->result = LOCK_GONE;
	if (holds || lock->asked)
		answer->result = zookeeper_attach(z, holds ? z->request.ttl_ms : ZOOKEEPER_WAIT_TTL,
			deadline, &answer->failure);
	if (answer->result == LOCK_LOST && !holds)
		answer->result = LOCK_GONE; /* our node went with the session */
	if (answer->result == LOCK_GRANTED)
		answer->result = find_own(z, deadline, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		answer->result = delete_node(z, z->own, deadline, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		answer->result = LOCK_RELEASED;
	else if (answer->result == LOCK_GONE && (holds || lock_is_heir(lock)))
		answer->result = LOCK_LOST;
	else if (answer->result != LOCK_GONE && answer->result != LOCK_LOST)
		return;
	zookeeper_session_end(&z->session); /* else the servers would keep it for its TTL */
	zookeeper_begin(lock);
}

/* --- By force --------------------------------------------------------------------------------- */

enum lock_result zookeeper_end(struct lock *lock, const struct contender *c,
	struct deadline deadline, struct failure *failure)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;
	char path[NODE_SIZE];

	zookeeper_path(z->path, ((const struct zookeeper_contender *)c)->node, path);
	return delete_node(z, path, deadline, failure);
}

static void zookeeper_force(struct lock *lock, lock_holder_taker *tell, void *context,
	struct deadline deadline, struct lock_answer *answer)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;
	struct zookeeper_queue queue = {0};

	answer->result = zookeeper_attach(z, z->request.ttl_ms, deadline, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		answer->result =
			zookeeper_read(&z->session, z->path, deadline, &queue, &answer->failure);
	if (answer->result == LOCK_GRANTED)
		contest_force(&z->contest, &queue.all, tell, context, deadline, answer);
	zookeeper_queue_free(&queue);
}

/* --- The service ------------------------------------------------------------------------------ */

static bool read_parameter(
	const struct server_reading *reading, const char *name, char *value, bool *known)
{
	*known = strcmp(name, "style") == 0;
	if (!*known)
		return true;
	if (strcmp(value, "kazoo") != 0 && strcmp(value, "curator") != 0 &&
		strcmp(value, "curator-rw") != 0)
		return server_fault(reading, "a style= that is none of kazoo, curator, curator-rw");
	return server_keep(reading, value, &reading->server->setting);
}

/* CHROOT: no empty part, "." nor "..", as ZooKeeper has it. */
static bool keep_chroot(const struct server_reading *reading)
{
	char *path = reading->url.path, *copy, *rest, *part;
	bool good = true;

	if (!path || *path == '\0')
		return true;
	path[strcspn(path, "?")] = '\0';
	path--; /* the '/' before it */
	*path = '/';
	copy = rest = strdup(path + 1);
	if (!copy)
		return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
	while (good && (part = strsep(&rest, "/")) != NULL)
		good = *part != '\0' && strcmp(part, ".") != 0 && strcmp(part, "..") != 0;
	free(copy);
	if (!good || strlen(path) > NODE_SIZE / 3)
		return server_fault(reading, "a path that is no node of ZooKeeper's");
	return server_keep(reading, path, &reading->server->path);
}

static bool read_url(struct server_reading *reading)
{
	return server_split(reading) && server_read_hosts(reading, reading->server->scheme->port) &&
	       keep_chroot(reading) && server_read_query(reading, read_parameter);
}

static struct lock *open_lock(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct zookeeper_lock *z = lock_new(sizeof(*z), &zookeeper_service, request, failure);

	if (!z)
		return NULL;
	z->request = *request;
	z->session.server = server;
	z->session.fd = -1;
	zookeeper_queue_path(server, request->prefix, request->name, z->path);
	z->contest = (struct contest){&zookeeper_contest, &z->lock, &z->request, z->id};
	zookeeper_begin(&z->lock);
	return &z->lock;
}

static void close_lock(struct lock *lock)
{
	struct zookeeper_lock *z = (struct zookeeper_lock *)lock;

	zookeeper_session_end(&z->session);
	zookeeper_session_close(&z->session);
	free(z);
}

/* Readable by the watch on our node, or by the end of the connection. */
static int watch_fd(const struct lock *lock)
{
	const struct zookeeper_lock *z = (const struct zookeeper_lock *)lock;

	return z->session.handle && z->state >= ZOOKEEPER_HOLDING ? z->session.fd : -1;
}

static const struct lock_scheme schemes[] = {{"zookeeper", false, 2181, 0}, {0}};

void zookeeper_library(char *text, size_t size)
{
	snprintf(text, size, "libzookeeper %s", ZOO_VERSION);
}

static const struct lock_lack lacks[] = {
	{LOCK_CAN_PRIORITY, "it serves in the order of arrival"},
	{LOCK_CAN_RECORD, "it keeps no record of successes"},
	{LOCK_CAN_KEEP, "a lock ends with its session there"},
	{LOCK_CAN_DETACH, "a lock ends with its session there"},
	{LOCK_CAN_REPLICATE, "a majority of its servers has every grant"},
	{LOCK_CAN_SETTLE, "it does not forget its locks when it restarts"},
	{0},
};

const struct lock_service zookeeper_service = {
	.name = "ZooKeeper",
	.schemes = schemes,
	.can = LOCK_CAN_SHARE | LOCK_CAN_PERMITS | LOCK_CAN_JOIN | LOCK_CAN_FORCE,
	.lacks = lacks,
	.password_variable = "DLOCK_PASSWORD",
	.read_url = read_url,
	.open = open_lock,
	.close = close_lock,
	.take = zookeeper_take,
	.renew = zookeeper_renew,
	.release = zookeeper_release,
	.wait = zookeeper_wait,
	.watch_fd = watch_fd,
	.force = zookeeper_force,
	.check = zookeeper_check,
	.list = zookeeper_list,
};
