/* The locks and the server, as `dlock status` and `dlock check` see them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/lock_check.h"
#include "lock/trial.h"
#include "net/server.h"
#include "zookeeper/zookeeper_lock.h"

#define SESSION_TTL 4000 /* ms */
#define LIMIT       (3 * NANOS_PER_SEC)

struct listing {
	struct zookeeper_session session;
	const struct lock_lister *lister; /* borrowed; this one */
	nanos span;                       /* for each answer */
	int cancel_fd;
};

/* --- dlock status ---------------------------------------------------------------------------- */

static struct deadline limit(const struct listing *l)
{
	return (struct deadline){clock_after(clock_now(), l->span), l->cancel_fd, DEADLINE_LEAST};
}

/* How long a session still lasts ZooKeeper does not say: the TTL is shown. */
static enum lock_result look_at_all(struct listing *l, const char *path,
	const struct zookeeper_queue *queue, struct failure *failure)
{
	for (size_t i = 0; i < queue->all.count; i++) {
		struct zookeeper_contender *c = zookeeper_queue_at(queue, i);
		enum lock_result result =
			zookeeper_look_at(&l->session, path, c, limit(l), failure);

		if (result == LOCK_GONE)
			c->is.state = CONTENDER_RELEASED;
		else if (result != LOCK_GRANTED)
			return result;
	}
	return LOCK_GRANTED;
}

static enum lock_result show_lock(
	struct listing *l, const char *path, const char *name, struct failure *failure)
{
	struct zookeeper_queue queue;
	enum lock_result result;

	zookeeper_session_children(&l->session, path, false);
	result = zookeeper_session_await(&l->session, limit(l), failure);
	if (result != LOCK_GRANTED)
		return result;
	/* A node that holds something else is no lock of ours. */
	if (zookeeper_queue_read(&queue, &l->session.reply[0], failure))
		result = look_at_all(l, path, &queue, failure);
	else if (failure->code == EXIT_CONFIG)
		result = LOCK_FAILED;
	else
		zookeeper_queue_free(&queue);
	if (result == LOCK_GRANTED && !contenders_show(&queue.all, name, path, l->lister->show,
					      l->lister->context, failure))
		result = LOCK_FAILED;
	zookeeper_queue_free(&queue);
	return result;
}

static enum lock_result show_all(struct listing *l, struct failure *failure)
{
	const char *root = l->session.server->path ? l->session.server->path : "/";
	struct zookeeper_reply *children = &l->session.reply[0];
	enum lock_result result;
	char **names;
	size_t count;

	zookeeper_session_children(&l->session, root, false);
	result = zookeeper_session_await(&l->session, limit(l), failure);
	names = children->names;
	count = result == LOCK_GRANTED ? children->name_count : 0;
	children->names = NULL;
	children->name_count = 0;
	for (size_t i = 0; i < count; i++) {
		const char *name;
		char path[NODE_SIZE];

		zookeeper_path(root[1] ? root : "", names[i], path);
		if (result == LOCK_GRANTED &&
			zookeeper_queue_name(names[i], l->lister->query.prefix, &name) &&
			lock_query_wants(&l->lister->query, name))
			result = show_lock(l, path, name, failure);
		free(names[i]);
	}
	free(names);
	return result;
}

static void list_close(void *state)
{
	struct listing *l = state;

	zookeeper_session_end(&l->session);
	zookeeper_session_close(&l->session);
	free(l);
}

bool zookeeper_list(struct lock_lister *lister, struct deadline deadline, struct failure *failure)
{
	bool first = !lister->state;
	struct listing *l = lock_lister_state(lister, sizeof(*l), list_close, failure);
	enum lock_result result = LOCK_GRANTED;

	if (!l)
		return false;
	if (first)
		l->session = (struct zookeeper_session){.server = lister->server, .fd = -1};
	l->lister = lister;
	l->span = deadline.until == NANOS_NEVER ? LIMIT : deadline.until - clock_now();
	l->cancel_fd = deadline.cancel_fd;
	failure->code = EXIT_DONE;
	for (int i = 0; i < 2 && !l->session.handle; i++)
		result = zookeeper_session_attach(&l->session, SESSION_TTL, limit(l), failure);
	if (result == LOCK_GRANTED)
		result = show_all(l, failure);
	if (result != LOCK_GRANTED && failure->code == EXIT_DONE)
		failure_set(
			failure, EXIT_UNREACHABLE, "no answer from %s", l->session.server->text);
	return result == LOCK_GRANTED;
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
