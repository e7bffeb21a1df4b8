#include "redis/session.h"

#include <stdio.h>
#include <string.h>

#include "redis/connection.h"
#include "redis/fault.h"
#include "redis/resolve.h"
#include "redis/script.h"
#include "server.h"

static enum wire fail_memory(struct failure *failure)
{
	failure_set(failure, EXIT_SYSTEM, "out of memory");
	return WIRE_FAILED;
}

static bool append_words(struct connection *connection, size_t count, const char *const *words)
{
	size_t lengths[3];

	for (size_t i = 0; i < count; i++)
		lengths[i] = strlen(words[i]);
	return connection_append(connection, count, words, lengths);
}

static bool append_greeting(struct session *session)
{
	const struct server *server = session->server;
	const char *as_default[] = {"AUTH", server->password};
	const char *as_user[] = {"AUTH", server->user, server->password ? server->password : ""};
	char db[16];
	const char *select[] = {"SELECT", db};
	bool done = true;

	if (server->user) {
		done = append_words(session->connection, 3, as_user);
		session->greetings++;
	} else if (server->password) {
		done = append_words(session->connection, 2, as_default);
		session->greetings++;
	}
	if (done && server->db != 0) {
		snprintf(db, sizeof(db), "%d", server->db);
		done = append_words(session->connection, 2, select);
		session->greetings++;
	}
	return done;
}

/* Connects, and leaves the greeting in the buffer. */
static enum wire start(struct session *session, struct patience patience, struct failure *failure)
{
	enum wire result = connection_open(&session->connection, session->server,
		&session->server->endpoints[0], session->server->text, &session->lookup, patience,
		failure);

	if (result != WIRE_OK) {
		session->connection = NULL;
		return result;
	}
	session->dials++;
	session->greetings = 0;
	session->waiting = session->landed = false;
	session->refusal.code = EXIT_DONE;
	return append_greeting(session) ? WIRE_OK : fail_memory(failure);
}

void session_begin(struct session *session)
{
	struct failure unheard;

	if (session->server->scheme == SERVER_UNIX)
		start(session, (struct patience){clock_now(), -1}, &unheard);
}

void session_drop(struct session *session)
{
	if (session->connection)
		connection_close(session->connection);
	session->connection = NULL;
	session->waiting = false;
}

void session_close(struct session *session)
{
	session_drop(session);
	resolve_abandon(session->lookup);
	session->lookup = NULL;
}

/* Reads the replies to the greeting. The first refusal is kept: the replies behind it only follow
 * from it. What cannot be now (LOADING) is said by the request's own reply as well. */
static enum wire read_greeting(
	struct session *session, struct patience patience, struct failure *failure)
{
	for (; session->greetings > 0; session->greetings--) {
		struct reply *reply;
		enum wire result = connection_read(session->connection, &reply, patience, failure);

		if (result != WIRE_OK)
			return result;
		if (reply_error(reply) && session->refusal.code == EXIT_DONE)
			fault_read(reply_error(reply), session->server->text, &session->refusal);
		reply_free(reply);
	}
	return WIRE_OK;
}

/* What is left unread would be taken for the answer to the next request. */
static enum wire end(struct session *session, enum wire result)
{
	if (result != WIRE_OK)
		session_drop(session);
	return result;
}

enum wire session_open(struct session *session, struct patience patience, struct failure *failure)
{
	enum wire result = WIRE_OK;

	if (session->connection && !session->waiting && session->greetings == 0)
		return WIRE_OK;
	if (session->waiting)
		session_drop(session);
	if (!session->connection)
		result = start(session, patience, failure);
	if (result == WIRE_OK)
		result = connection_flush(session->connection, patience, failure);
	if (result == WIRE_OK)
		result = read_greeting(session, patience, failure);
	if (result == WIRE_OK && session->refusal.code != EXIT_DONE) {
		*failure = session->refusal;
		result = failure->code == EXIT_UNREACHABLE ? WIRE_AGAIN : WIRE_FAILED;
	}
	return end(session, result);
}

static enum wire send_call(struct session *session, struct call *call, bool in_full,
	struct patience patience, struct failure *failure)
{
	if (!call_append(call, session->connection, in_full))
		return fail_memory(failure);
	session->waiting = true;
	session->sent_at = clock_now();
	return connection_flush(session->connection, patience, failure);
}

enum wire session_send(struct session *session, struct call *call, struct patience patience,
	struct failure *failure)
{
	enum wire result = WIRE_OK;

	if (session->connection && session->waiting)
		session_drop(session);
	/* Behind a SELECT that fails, the lock would be taken in database 0. */
	if (session->server->db != 0)
		result = session_open(session, patience, failure);
	else if (!session->connection)
		result = start(session, patience, failure);
	if (result == WIRE_OK)
		result = send_call(session, call, false, patience, failure);
	return end(session, result);
}

/* Redis 7.0 says only where, from 7.2 on also which. */
static void name_right(const struct call *call, const char *text, struct failure *failure)
{
	char command[24];

	if (script_command_at(call->script, fault_line(text), command))
		failure_set(failure, failure->code, "%s: +%s is missing", failure->text, command);
}

/* An error reply to the request. *again: it was sent in full, wait for that. */
static enum wire heed_error(struct session *session, struct call *call, const char *text,
	bool *again, struct patience patience, struct failure *failure)
{
	enum fault_kind kind = fault_read(text, session->server->text, failure);

	if (session->refusal.code != EXIT_DONE) {
		*failure = session->refusal;
		session_drop(session);
		return failure->code == EXIT_UNREACHABLE ? WIRE_AGAIN : WIRE_FAILED;
	}
	switch (kind) {
	case FAULT_NO_SCRIPT:
		*again = call->words[1] == call->script->sha;
		return *again ? send_call(session, call, true, patience, failure) : WIRE_FAILED;
	case FAULT_AGAIN:
		return WIRE_AGAIN;
	case FAULT_MOVED_AWAY:
		session_drop(session);
		return WIRE_AGAIN;
	case FAULT_WRONG_TYPE:
		failure_set(failure, EXIT_PROTOCOL,
			"the key '%s' holds something else than a lock: it is somebody else's, and "
			"is left alone",
			session->key);
		return WIRE_FAILED;
	case FAULT_NO_RIGHT:
		name_right(call, text, failure);
		return WIRE_FAILED;
	case FAULT_FINAL:
		break;
	}
	return WIRE_FAILED;
}

static enum wire receive(struct session *session, struct call *call, struct reply **reply,
	struct patience patience, struct failure *failure)
{
	enum wire result = read_greeting(session, patience, failure);
	bool again = true;

	while (again && result == WIRE_OK) {
		result = connection_read(session->connection, reply, patience, failure);
		if (result != WIRE_OK)
			break;
		again = false;
		session->waiting = false;
		if (!reply_error(*reply))
			break;
		result = heed_error(session, call, reply_error(*reply), &again, patience, failure);
		reply_free(*reply);
	}
	/* When only patience ran out, what is under way can still be ended behind it: lock_release.
	 */
	if (result == WIRE_CLOSED)
		session_drop(session);
	return result;
}

enum wire session_receive(struct session *session, struct call *call, struct reply **reply,
	struct patience patience, struct failure *failure)
{
	enum wire result = receive(session, call, reply, patience, failure);

	if (result == WIRE_CLOSED && session->refusal.code != EXIT_DONE) {
		*failure = session->refusal;
		return WIRE_FAILED;
	}
	if (result != WIRE_OK || session->refusal.code == EXIT_DONE)
		return result;
	/* The password was refused, but nobody had asked for one. */
	reply_free(*reply);
	*failure = session->refusal;
	session->landed = true;
	return WIRE_FAILED;
}

enum wire session_call(struct session *session, struct call *call, struct reply **reply,
	struct patience patience, struct failure *failure)
{
	bool used = session->connection && !session->waiting;
	enum wire result = session_send(session, call, patience, failure);

	if (result == WIRE_OK)
		result = session_receive(session, call, reply, patience, failure);
	if (result == WIRE_CLOSED && used) {
		session_drop(session);
		result = session_send(session, call, patience, failure);
		if (result == WIRE_OK)
			result = session_receive(session, call, reply, patience, failure);
	}
	return result;
}
