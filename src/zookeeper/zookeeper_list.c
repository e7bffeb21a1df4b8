/* The locks and the server, as `dlock status` and `dlock check` see them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/server.h"
#include "zookeeper/zookeeper_lock.h"

#define SESSION_TTL 4000 /* ms */
#define LIMIT       (3 * NANOS_PER_SEC)

/* How long a session still lasts ZooKeeper does not say: the TTL is shown. */
static enum lock_result look_at_all(struct lock_lister *lister, const char *path,
	const struct zookeeper_queue *queue, struct failure *failure)
{
	for (size_t i = 0; i < queue->all.count; i++) {
		struct zookeeper_contender *c = zookeeper_queue_at(queue, i);
		enum lock_result result = zookeeper_look_at(
			lister->state, path, c, lock_lister_limit(lister), failure);

		if (result == LOCK_GONE)
			c->is.state = CONTENDER_RELEASED;
		else if (result != LOCK_GRANTED)
			return result;
	}
	return LOCK_GRANTED;
}

static enum lock_result show_lock(
	struct lock_lister *lister, const char *path, const char *name, struct failure *failure)
{
	struct zookeeper_session *session = lister->state;
	struct zookeeper_queue queue;
	enum lock_result result;

	zookeeper_session_children(session, path, false);
	result = zookeeper_session_await(session, lock_lister_limit(lister), failure);
	if (result != LOCK_GRANTED)
		return result;
	/* A node that holds something else is no lock of ours. */
	if (zookeeper_queue_read(&queue, &session->reply[0], failure))
		result = look_at_all(lister, path, &queue, failure);
	else if (failure->code == EXIT_CONFIG)
		result = LOCK_FAILED;
	else
		zookeeper_queue_free(&queue);
	if (result == LOCK_GRANTED &&
		!contenders_show(&queue.all, name, path, lister->show, lister->context, failure))
		result = LOCK_FAILED;
	zookeeper_queue_free(&queue);
	return result;
}

static enum lock_result show_all(struct lock_lister *lister, struct failure *failure)
{
	struct zookeeper_session *session = lister->state;
	const char *root = lister->server->path ? lister->server->path : "/";
	struct zookeeper_reply *children = &session->reply[0];
	enum lock_result result;
	char **names;
	size_t count;

	zookeeper_session_children(session, root, false);
	result = zookeeper_session_await(session, lock_lister_limit(lister), failure);
	names = children->names;
	count = result == LOCK_GRANTED ? children->name_count : 0;
	children->names = NULL;
	children->name_count = 0;
	for (size_t i = 0; i < count; i++) {
		const char *name;
		char path[NODE_SIZE];

		zookeeper_path(root[1] ? root : "", names[i], path);
		if (result == LOCK_GRANTED &&
			zookeeper_queue_name(names[i], lister->query.prefix, &name) &&
			lock_query_wants(&lister->query, name))
			result = show_lock(lister, path, name, failure);
		free(names[i]);
	}
	free(names);
	return result;
}

static void list_close(void *state)
{
	zookeeper_session_end(state);
	zookeeper_session_close(state);
	free(state);
}

bool zookeeper_list(struct lock_lister *lister, struct failure *failure)
{
	bool first = !lister->state;
	struct zookeeper_session *session =
		lock_lister_state(lister, sizeof(*session), list_close, failure);
	enum lock_result result = LOCK_GRANTED;

	if (!session)
		return false;
	if (first)
		*session = (struct zookeeper_session){.server = lister->server, .fd = -1};
	for (int i = 0; i < 2 && !session->handle; i++)
		result = zookeeper_session_attach(
			session, SESSION_TTL, lock_lister_limit(lister), failure);
	return result == LOCK_GRANTED && show_all(lister, failure) == LOCK_GRANTED;
}

/* --- dlock check ----------------------------------------------------------------------------- */

bool zookeeper_check(const struct server *server, const struct lock_request *request,
	lock_finding_taker *take, void *context, struct failure *failure)
{
	struct zookeeper_session session = {.server = server, .fd = -1};
	struct lock_finding finding = {.server = server->text, .subject = "session"};
	char text[200], name[TRIAL_NAME];
	enum lock_result result = zookeeper_session_attach(&session, request->ttl_ms,
		deadline_alone(clock_after(clock_now(), LIMIT)), failure);

	if (result == LOCK_GRANTED) {
		snprintf(text, sizeof(text), "lasts %d ms", session.ttl_ms);
		finding.found = text;
		if (session.ttl_ms < request->ttl_ms)
			finding.advice = "a longer TTL needs a greater maxSessionTimeout";
	} else {
		if (result != LOCK_FAILED)
			failure_set(failure, EXIT_UNREACHABLE, "no answer");
		finding.verdict = LOCK_UNFIT;
		finding.code = failure->code;
		finding.found = failure->text;
	}
	take(&finding, context);
	/* The limit itself it tells nobody. */
	if (result == LOCK_GRANTED)
		take(&(struct lock_finding){.server = server->text,
			     .subject = "connections",
			     .found = "maxClientCnxns must be twice the dlocks of an address"},
			context);
	zookeeper_session_end(&session);
	zookeeper_session_close(&session);
	if (result == LOCK_GRANTED)
		trial_report(server, request, trial_name(name), take, context);
	return true;
}
