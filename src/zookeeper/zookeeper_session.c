#include "zookeeper/zookeeper_session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/resolve.h"
#include "net/password.h"
#include "net/server.h"

#define TTL_USUAL    4000 /* ms: of a session that is to last no longer than needed */
#define QUIET_TENTHS 5    /* of its TTL; at two thirds the library takes the server for dead */
#define PART_LIMIT   (300 * NANOS_PER_MS)
/* For a server to take a session that is there. A server that is starting may never answer, and the
 * library would wait for two thirds of the TTL. */
#define AGAIN_LIMIT (3 * NANOS_PER_SEC)

/* --- Failures -------------------------------------------------------------------------------- */

static const struct {
	int rc;
	enum exit_code code;
	const char *text;
} faults[] = {
	{ZNOAUTH, EXIT_REFUSED, "no right to this (an ACL)"},
	{ZAUTHFAILED, EXIT_REFUSED, "the user or the password is refused"},
	{ZSESSIONCLOSEDREQUIRESASLAUTH, EXIT_REFUSED, "the server asks for SASL"},
	{ZMARSHALLINGERROR, EXIT_PROTOCOL, "an answer without sense"},
	{ZUNIMPLEMENTED, EXIT_PROTOCOL, "the server is older than ZooKeeper 3.5"},
	{ZBADARGUMENTS, EXIT_USAGE, "ZooKeeper takes no node of that name"},
	{ZINVALIDACL, EXIT_PROTOCOL, "the ACL is refused"},
};

/* Leaves: answers that are still under way are not awaited any more. */
static enum lock_result fail(struct zookeeper_session *session, int rc, struct failure *failure)
{
	int state = session->handle ? zoo_state(session->handle) : 0;
	const char *name = session->server->text;
	enum exit_code code = EXIT_UNREACHABLE;
	const char *text = NULL;
	/* As one does that has no leader yet. */
	bool closes = session->state == ZOO_ASSOCIATING_STATE && rc == ZCONNECTIONLOSS;

	if (rc == ZSESSIONEXPIRED || state == ZOO_EXPIRED_SESSION_STATE) {
		zookeeper_session_leave(session);
		session->id = (clientid_t){0};
		return LOCK_LOST;
	}
	if (state == ZOO_AUTH_FAILED_STATE)
		rc = ZAUTHFAILED;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i].rc == rc) {
			code = faults[i].code;
			text = faults[i].text;
		}
	if (text)
		failure_set(failure, code, "%s: %s", name, text);
	else if (closes)
		failure_set(failure, code,
			"cannot use %s: it closes the connection at once; has it no leader, this "
			"host too many connections (maxClientCnxns), or is it no ZooKeeper?",
			name);
	else
		failure_set(failure, code, "cannot reach %s: %s", name, zerror(rc));
	failure->passes = closes && !text;
	zookeeper_session_leave(session);
	return LOCK_FAILED;
}

/* --- One connection -------------------------------------------------------------------------- */

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	(void)handle;
	(void)state;
	(void)path;
	if (type != ZOO_SESSION_EVENT)
		((struct zookeeper_session *)context)->told = true;
}

/* The handle's state. The library learns that a connection was made as it reads from it; the server
 * may have closed it by then. */
static int find_state(const struct zookeeper_session *session)
{
	int state = zoo_state(session->handle), error = ECONNREFUSED;
	socklen_t size = sizeof(error);

	if (state != ZOO_CONNECTING_STATE)
		return state;
	getsockopt(session->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	return error == 0 || error == ECONNRESET || error == EPIPE ? ZOO_ASSOCIATING_STATE : state;
}

/* Waits until the library has something to do, and lets it. LOCK_BUSY: that was all. A waiter that
 * sleeps is woken less often than the library likes, for its sign of life and the answer to it. */
static enum lock_result step(struct zookeeper_session *session, bool sleeps,
	struct deadline *deadline, struct failure *failure)
{
	struct timeval span = {0};
	struct deadline own;
	enum deadline_end end;
	int interest = 0, rc, state;

	rc = zookeeper_interest(session->handle, &session->fd, &interest, &span);
	if (rc != ZOK || session->fd < 0)
		return fail(session, rc == ZOK ? ZCONNECTIONLOSS : rc, failure);
	own = deadline_within(
		*deadline, sleeps ? session->ttl_ms * NANOS_PER_MS * QUIET_TENTHS / 10
				  : span.tv_sec * NANOS_PER_SEC + span.tv_usec * NANOS_PER_US);
	end = deadline_wait(&own, session->fd,
		(short)((interest & ZOOKEEPER_READ ? POLLIN : 0) |
			(interest & ZOOKEEPER_WRITE ? POLLOUT : 0)));
	if (end == DEADLINE_CANCELLED)
		return LOCK_CANCELLED;
	if (end == DEADLINE_OVER)
		return deadline_is_over(deadline) ? LOCK_TIMEOUT : LOCK_BUSY;
	session->state = find_state(session);
	rc = zookeeper_process(session->handle, interest);
	state = zoo_state(session->handle);
	if ((rc != ZOK && rc != ZNOTHING) || is_unrecoverable(session->handle) != ZOK ||
		state == ZOO_NOTCONNECTED_STATE)
		return fail(session, rc == ZOK || rc == ZNOTHING ? ZCONNECTIONLOSS : rc, failure);
	return LOCK_BUSY;
}

/* The endpoint as the library reads it: it would look names up without a limit in time. */
static enum lock_result find_host(struct zookeeper_session *session,
	char text[static INET6_ADDRSTRLEN + 16], struct deadline deadline, struct failure *failure)
{
	const struct endpoint *endpoint = &session->server->endpoints[session->at];
	char address[INET6_ADDRSTRLEN];
	struct addresses addresses = {0};

	switch (resolve_host(
		&session->lookup, endpoint->host, endpoint->port, deadline, &addresses, failure)) {
	case IO_OK:
		break;
	case IO_CANCELLED:
		return LOCK_CANCELLED;
	case IO_FAILED:
		return LOCK_FAILED;
	default:
		return LOCK_TIMEOUT;
	}
	resolve_write(&addresses, 0, address);
	snprintf(text, INET6_ADDRSTRLEN + 16, "%s:%d", address, endpoint->port);
	return LOCK_GRANTED;
}

/* The library knows no secret but this; it is sent with each connection. */
static void add_user(struct zookeeper_session *session)
{
	const struct server *server = session->server;
	char *password, *both = NULL;

	if (!server->user)
		return;
	password = server_password(server);
	if (asprintf(&both, "%s:%s", server->user, password ? password : "") >= 0) {
		zoo_add_auth(session->handle, "digest", both, (int)strlen(both), NULL, NULL);
		password_forget(both);
	}
	password_forget(password);
}

static enum lock_result attach_here(struct zookeeper_session *session, int64_t ttl_ms,
	struct deadline *deadline, struct failure *failure)
{
	char host[INET6_ADDRSTRLEN + 16];
	enum lock_result result = find_host(session, host, *deadline, failure);

	if (result != LOCK_GRANTED)
		return result;
	zoo_set_debug_level(0);
	session->attached_at = clock_now();
	if (session->id.client_id == 0)
		session->begun_at = session->attached_at;
	session->wanted_ms = ttl_ms;
	session->told = false;
	session->handle = zookeeper_init2(host, on_event,
		ttl_ms == 0        ? TTL_USUAL
		: ttl_ms > INT_MAX ? INT_MAX
				   : (int)ttl_ms,
		session->id.client_id != 0 ? &session->id : NULL, session, 0, NULL);
	if (!session->handle) {
		failure_set(failure, EXIT_SYSTEM, "cannot open a session: %s", strerror(errno));
		return LOCK_FAILED;
	}
	zoo_set_servers_resolution_delay(session->handle, -1); /* not again and again */
	add_user(session);
	do
		result = step(session, false, deadline, failure);
	while (result == LOCK_BUSY && zoo_state(session->handle) != ZOO_CONNECTED_STATE);
	if (result != LOCK_BUSY) {
		zookeeper_session_leave(session);
		return result;
	}
	session->id = *zoo_client_id(session->handle);
	session->ttl_ms = zoo_recv_timeout(session->handle);
	return LOCK_GRANTED;
}

nanos zookeeper_session_settles_at(const struct zookeeper_session *session)
{
	return session->server->endpoint_count > 1 && session->begun_at != 0
		       ? session->begun_at + ZOOKEEPER_SESSION_SETTLES_IN
		       : 0;
}

/* For one of so many endpoints. */
static struct deadline share(
	const struct zookeeper_session *session, struct deadline deadline, size_t left)
{
	if (session->id.client_id != 0)
		deadline = deadline_within(deadline, AGAIN_LIMIT);
	if (left > 1 && deadline.until != NANOS_NEVER)
		deadline = deadline_within(deadline, (deadline.until - clock_now()) / (nanos)left);
	return deadline;
}

/* A server counts the connections of an address, and would count the next one beside this one. So
 * this one ends first, and the server has closed it. */
static void part(const struct zookeeper_session *session, struct deadline deadline)
{
	struct deadline limit = deadline_within(deadline, PART_LIMIT);
	char unread[512];

	if (!session->handle || zoo_state(session->handle) != ZOO_CONNECTED_STATE ||
		shutdown(session->fd, SHUT_WR) != 0)
		return;
	limit.least = 0;
	while (deadline_wait(&limit, session->fd, POLLIN) == DEADLINE_READY &&
		recv(session->fd, unread, sizeof(unread), 0) > 0)
		continue;
}

enum lock_result zookeeper_session_attach(struct zookeeper_session *session, int64_t ttl_ms,
	struct deadline deadline, struct failure *failure)
{
	size_t count = session->server->endpoint_count;
	enum lock_result result = LOCK_FAILED;
	struct failure passing = {0};

	part(session, deadline);
	zookeeper_session_leave(session);
	for (size_t left = count; left > 0; left--) {
		struct deadline own = share(session, deadline, left);

		result = attach_here(session, ttl_ms, &own, failure);
		if (result != LOCK_TIMEOUT &&
			(result != LOCK_FAILED || failure->code != EXIT_UNREACHABLE))
			return result;
		if (result == LOCK_FAILED && failure->passes)
			passing = *failure;
		session->at = (session->at + 1) % count;
		if (deadline_is_over(&deadline))
			return LOCK_TIMEOUT;
	}
	if (passing.passes) {
		*failure = passing;
		result = LOCK_FAILED;
	} else if (result == LOCK_TIMEOUT) { /* not the caller's */
		failure_set(failure, EXIT_UNREACHABLE, "cannot reach %s: no answer",
			session->server->text);
		result = LOCK_FAILED;
	}
	return result;
}

void zookeeper_session_leave(struct zookeeper_session *session)
{
	int nothing = -1;
	bool speaks;

	if (!session->handle)
		return;
	/* While it is connected zookeeper_close writes something, which must not reach the server:
	 * to /dev/null with it. Else the library has closed its socket, or says nothing when it
	 * does; the descriptor may be another thread's by now. */
	speaks = zoo_state(session->handle) == ZOO_CONNECTED_STATE;
	if (speaks)
		nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (speaks && (nothing < 0 || dup3(nothing, session->fd, O_CLOEXEC) < 0))
		close(session->fd);
	else
		zookeeper_close(session->handle);
	if (nothing >= 0)
		close(nothing);
	session->handle = NULL;
	session->fd = -1;
	session->asked = 0;
}

void zookeeper_session_end(struct zookeeper_session *session)
{
	/* zookeeper_close() waits for an answer, which is nothing to us: so none is to come. */
	if (session->handle && session->fd >= 0)
		shutdown(session->fd, SHUT_RD);
	if (session->handle)
		zookeeper_close(session->handle);
	session->handle = NULL;
	session->fd = -1;
	session->id = (clientid_t){0};
}

/* --- Requests -------------------------------------------------------------------------------- */

static void free_names(struct zookeeper_reply *reply)
{
	for (size_t i = 0; i < reply->name_count; i++)
		free(reply->names[i]);
	free(reply->names);
	reply->names = NULL;
	reply->name_count = 0;
}

void zookeeper_session_close(struct zookeeper_session *session)
{
	zookeeper_session_leave(session);
	for (size_t i = 0; i < REPLY_MOST; i++)
		free_names(&session->reply[i]);
	resolve_abandon(session->lookup);
	session->lookup = NULL;
}

static struct zookeeper_reply *next_reply(struct zookeeper_session *session)
{
	struct zookeeper_reply *reply = &session->reply[session->asked++];

	free_names(reply);
	*reply = (struct zookeeper_reply){0};
	return reply;
}

static void finish(struct zookeeper_reply *reply, int rc, const struct Stat *stat)
{
	reply->done = true;
	reply->rc = rc;
	if (rc == ZOK && stat)
		reply->stat = *stat;
}

static void on_void(int rc, const void *data)
{
	finish((struct zookeeper_reply *)data, rc, NULL);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
	finish((struct zookeeper_reply *)data, rc, stat);
}

static void on_data(
	int rc, const char *value, int length, const struct Stat *stat, const void *data)
{
	struct zookeeper_reply *reply = (struct zookeeper_reply *)data;

	finish(reply, rc, stat);
	if (rc == ZOK && value && length > 0)
		snprintf(reply->text, sizeof(reply->text), "%.*s", length, value);
}

static void on_path(int rc, const char *value, const struct Stat *stat, const void *data)
{
	struct zookeeper_reply *reply = (struct zookeeper_reply *)data;

	finish(reply, rc, stat);
	if (rc == ZOK && value)
		snprintf(reply->text, sizeof(reply->text), "%s",
			strrchr(value, '/') ? strrchr(value, '/') + 1 : value);
}

static void on_synced(int rc, const char *value, const void *data)
{
	(void)value;
	finish((struct zookeeper_reply *)data, rc, NULL);
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
	struct zookeeper_reply *reply = (struct zookeeper_reply *)data;
	int count = rc == ZOK && names ? names->count : 0;

	finish(reply, rc, NULL);
	reply->names = calloc((size_t)count + 1, sizeof(*reply->names));
	if (!reply->names)
		reply->rc = ZSYSTEMERROR;
	for (int i = 0; reply->names && i < count; i++) {
		char *name = strdup(names->data[i]);

		if (name)
			reply->names[reply->name_count++] = name;
		else
			reply->rc = ZSYSTEMERROR;
	}
}

/* A request that could not even be begun is answered at once. */
static void begun(struct zookeeper_reply *reply, int rc)
{
	if (rc != ZOK)
		finish(reply, rc, NULL);
}

void zookeeper_session_sync(struct zookeeper_session *session, const char *path)
{
	struct zookeeper_reply *reply = next_reply(session);

	begun(reply, zoo_async(session->handle, path, on_synced, reply));
}

void zookeeper_session_children(struct zookeeper_session *session, const char *path, bool watch)
{
	struct zookeeper_reply *reply = next_reply(session);

	begun(reply, zoo_awget_children(session->handle, path, watch ? on_event : NULL, session,
			     on_names, reply));
}

void zookeeper_session_get(struct zookeeper_session *session, const char *path, bool watch)
{
	struct zookeeper_reply *reply = next_reply(session);

	begun(reply,
		zoo_awget(session->handle, path, watch ? on_event : NULL, session, on_data, reply));
}

void zookeeper_session_set(struct zookeeper_session *session, const char *path, const char *data)
{
	struct zookeeper_reply *reply = next_reply(session);

	begun(reply, zoo_aset(session->handle, path, data, (int)strlen(data), -1, on_stat, reply));
}

void zookeeper_session_create(
	struct zookeeper_session *session, const char *path, const char *data, int flags)
{
	struct zookeeper_reply *reply = next_reply(session);

	begun(reply, zoo_acreate2(session->handle, path, data, (int)strlen(data),
			     &ZOO_OPEN_ACL_UNSAFE, flags, on_path, reply));
}

void zookeeper_session_delete(struct zookeeper_session *session, const char *path)
{
	struct zookeeper_reply *reply = next_reply(session);

	begun(reply, zoo_adelete(session->handle, path, -1, on_void, reply));
}

void zookeeper_session_multi(struct zookeeper_session *session, int count,
	const zoo_op_t *operations, zoo_op_result_t *results)
{
	struct zookeeper_reply *reply = next_reply(session);

	begun(reply, zoo_amulti(session->handle, count, operations, results, on_void, reply));
}

/* The result that the caller knows how to take. */
static bool is_answer(int rc)
{
	return rc == ZOK || rc == ZNONODE || rc == ZNODEEXISTS || rc == ZBADVERSION ||
	       rc == ZNOTEMPTY;
}

enum lock_result zookeeper_session_await(
	struct zookeeper_session *session, struct deadline deadline, struct failure *failure)
{
	enum lock_result result = LOCK_BUSY;
	size_t count = session->asked;

	for (size_t i = 0; i < count && result == LOCK_BUSY;)
		if (!session->reply[i].done)
			result = step(session, false, &deadline, failure);
		else if (!is_answer(session->reply[i].rc))
			result = fail(session, session->reply[i].rc, failure);
		else
			i++;
	session->asked = 0;
	if (result == LOCK_BUSY)
		return LOCK_GRANTED;
	zookeeper_session_leave(session);
	return result;
}

enum lock_result zookeeper_session_listen(
	struct zookeeper_session *session, struct deadline deadline, struct failure *failure)
{
	enum lock_result result = LOCK_BUSY;

	while (result == LOCK_BUSY && !session->told)
		result = step(session, true, &deadline, failure);
	session->told = false;
	return result == LOCK_BUSY ? LOCK_GRANTED : result;
}
