#include "redis/session.h"

#include <bsd/stdlib.h>
#include <stdio.h>
#include <string.h>

#include "redis/connection.h"
#include "redis/fault.h"
#include "redis/greeting.h"
#include "redis/resolve.h"
#include "redis/script.h"
#include "redis/sentinel.h"
#include "server.h"

#define NAMED_FOR   NANOS_PER_SEC        /* so long what the sentinels said is relied upon */
#define NAMED_LIMIT (500 * NANOS_PER_MS) /* for them to say it again */
#define GREET_LIMIT                                                                                \
	(2 * NANOS_PER_SEC) /* for the sentinels and the master, before the next try               \
			     */
#define PAUSE_LEAST 50      /* ms before the sentinels are asked again */
#define PAUSE_MORE  200

const char *session_peer(const struct session *session)
{
	return route_name(&session->route, session->server);
}

static enum wire fail_memory(struct failure *failure)
{
	failure_set(failure, EXIT_SYSTEM, "out of memory");
	return WIRE_FAILED;
}

/* Connects, and leaves the greeting in the buffer. */
static enum wire start(struct session *session, struct patience patience, struct failure *failure)
{
	enum wire result;

	if (session->dials > 0 && !session->heard)
		route_doubt(&session->route);
	session->borrowed = session->route.once.host[0] != '\0';
	result = route_connect(&session->route, session->server, &session->connection,
		&session->lookup, patience, failure);
	if (result != WIRE_OK) {
		session->connection = NULL;
		return result;
	}
	session->dials++;
	if (session->server->scheme == SERVER_SENTINEL)
		session->named_at = clock_now();
	session->greetings = 0;
	session->waiting = session->owes = session->landed = session->heard = false;
	session->refusal.code = EXIT_DONE;
	return greeting_append(session) ? WIRE_OK : fail_memory(failure);
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
	session->waiting = session->owes = false;
}

bool session_is_current(struct session *session, struct patience patience)
{
	struct failure unheard;
	struct place master;

	if (session->server->scheme != SERVER_SENTINEL ||
		clock_now() - session->named_at < NAMED_FOR)
		return true;
	/* Sentinels that do not answer are no reason to leave a server that does. */
	if (sentinel_find(session->server, &session->route.first, &master,
		    patience_within(patience, NAMED_LIMIT), &unheard) != WIRE_OK)
		return true;
	session->named_at = clock_now();
	return route_leads_to(&session->route, &master);
}

void session_close(struct session *session)
{
	session_drop(session);
	resolve_abandon(session->lookup);
	session->lookup = NULL;
}

/* What is left unread would be taken for the answer to the next request. */
static enum wire end(struct session *session, enum wire result)
{
	if (result != WIRE_OK)
		session_drop(session);
	return result;
}

static enum wire greet(struct session *session, struct patience patience, struct failure *failure)
{
	enum wire result = WIRE_OK;

	if (!session->connection)
		result = start(session, patience, failure);
	if (result == WIRE_OK)
		result = connection_flush(session->connection, patience, failure);
	if (result == WIRE_OK)
		result = greeting_read(session, patience, failure);
	if (result == WIRE_OK && session->refusal.code != EXIT_DONE) {
		*failure = session->refusal;
		result = failure->code == EXIT_UNREACHABLE ? WIRE_AGAIN : WIRE_FAILED;
	}
	return end(session, result);
}

/* False: patience is over. */
static bool pause_before_next(struct patience patience, enum wire *result)
{
	nanos span = (PAUSE_LEAST + arc4random_uniform(PAUSE_MORE)) * NANOS_PER_MS;

	if (patience_wait(patience_within(patience, span), -1, 0) == PATIENCE_CANCELLED)
		*result = WIRE_CANCELLED;
	return *result != WIRE_CANCELLED && clock_now() < patience.until;
}

/* Sentinels name the old master until they have agreed on another one. */
enum wire session_open(struct session *session, struct patience patience, struct failure *failure)
{
	enum wire result;

	if (session->connection && !session->waiting && session->greetings == 0)
		return WIRE_OK;
	if (session->waiting)
		session_drop(session);
	if (session->server->scheme != SERVER_SENTINEL)
		return greet(session, patience, failure);
	do {
		result = greet(session, patience_within(patience, GREET_LIMIT), failure);
		if (result == WIRE_TIMEOUT)
			result = WIRE_AGAIN;
	} while (result == WIRE_AGAIN && pause_before_next(patience, &result));
	return result;
}

static enum wire send_call(struct session *session, struct call *call, bool in_full,
	struct patience patience, struct failure *failure)
{
	if (session->borrowed && !greeting_append_asking(session))
		return fail_memory(failure);
	if (!call_append(call, session->connection, in_full))
		return fail_memory(failure);
	session->waiting = true;
	session->owes = call->replicas > 0;
	session->sent_at = clock_now();
	return connection_flush(session->connection, patience, failure);
}

enum wire session_send(struct session *session, struct call *call, struct patience patience,
	struct failure *failure)
{
	enum wire result = WIRE_OK;

	if (session->connection && (session->waiting || session->owes || session->borrowed ||
					   !session_is_current(session, patience)))
		session_drop(session);
	session->moving = false;
	/* Behind a SELECT that fails, the lock would be taken in database 0; behind a ROLE, perhaps
	 * in a replica that can be written to. */
	if (session->server->db != 0 || session->server->scheme == SERVER_SENTINEL)
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

/* Behind an error the replicas are of no interest, but a reply about them is to come. */
static enum wire skip_owed(
	struct session *session, struct patience patience, struct failure *failure)
{
	struct reply *reply;
	enum wire result = WIRE_OK;

	if (session->owes)
		result = connection_read(session->connection, &reply, patience, failure);
	if (session->owes && result == WIRE_OK)
		reply_free(reply);
	session->owes = false;
	return result;
}

/* Sends the call where the redirect leads. */
static enum wire follow(struct session *session, struct call *call, const char *text, bool *again,
	struct patience patience, struct failure *failure)
{
	bool once;
	enum wire result = route_redirect(&session->route, session->server, text, &once, failure);

	session->heard = true;
	session_drop(session);
	if (result != WIRE_OK)
		return result;
	result = start(session, patience, failure);
	if (result == WIRE_OK)
		result = send_call(session, call, false, patience, failure);
	*again = result == WIRE_OK;
	if (*again)
		*failure = (struct failure){0}; /* as below */
	return result;
}

/* An error reply to the request. *again: it was sent in full, wait for that. */
static enum wire heed_error(struct session *session, struct call *call, const char *text,
	bool *again, struct patience patience, struct failure *failure)
{
	enum fault_kind kind = fault_read(text, session_peer(session), failure);
	enum wire result;

	if (session->refusal.code != EXIT_DONE) {
		*failure = session->refusal;
		session_drop(session);
		return failure->code == EXIT_UNREACHABLE ? WIRE_AGAIN : WIRE_FAILED;
	}
	switch (kind) {
	case FAULT_NO_SCRIPT:
		if (call->words[1] != call->script->sha)
			return WIRE_FAILED;
		result = skip_owed(session, patience, failure);
		if (result == WIRE_OK)
			result = send_call(session, call, true, patience, failure);
		*again = result == WIRE_OK;
		/* If time is up before the answer to that, there is none, and no fault. */
		if (*again)
			*failure = (struct failure){0};
		return result;
	case FAULT_REDIRECT:
		return follow(session, call, text, again, patience, failure);
	case FAULT_MOVING:
		session->moving = true;
		return WIRE_AGAIN;
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
	enum wire result = WIRE_OK;
	bool again = true;

	while (again && result == WIRE_OK) {
		result = greeting_read(session, patience, failure);
		if (result == WIRE_OK)
			result = connection_read(session->connection, reply, patience, failure);
		if (result != WIRE_OK)
			break;
		again = false;
		session->heard = true;
		session->waiting = false;
		if (!reply_error(*reply)) {
			session->route.redirects = 0;
			break;
		}
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

enum wire session_confirm(struct session *session, int64_t *replicas, struct patience patience,
	struct failure *failure)
{
	struct reply *reply;
	enum wire result = connection_read(session->connection, &reply, patience, failure);

	if (result != WIRE_OK) {
		session->waiting = true;
		return result;
	}
	session->owes = false;
	*replicas = reply_integer(reply);
	if (reply_error(reply)) {
		fault_read(reply_error(reply), session_peer(session), failure);
		result = WIRE_FAILED;
	}
	reply_free(reply);
	return result;
}

enum wire session_heed(struct session *session, const char *text, struct failure *failure)
{
	bool once;

	session->heard = true;
	switch (fault_read(text, session_peer(session), failure)) {
	case FAULT_REDIRECT:
		route_redirect(&session->route, session->server, text, &once, failure);
		session->route.once.host[0] = '\0';
		return WIRE_CLOSED;
	case FAULT_MOVING:
	case FAULT_AGAIN:
	case FAULT_MOVED_AWAY:
		return WIRE_CLOSED;
	default:
		return WIRE_FAILED;
	}
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
