#include "redis/link/link.h"

#include "net/resolve.h"
#include "net/server.h"
#include "redis/keys.h"
#include "redis/redis_url.h"
#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/script/script.h"

#define NAMED_FOR   NANOS_PER_SEC        /* so long what the sentinels said is relied upon */
#define NAMED_LIMIT (500 * NANOS_PER_MS) /* for them to say it again */
#define GREET_LIMIT (2 * NANOS_PER_SEC)  /* for sentinels and master, before the next try */
#define PAUSE_LEAST 50                   /* ms between two tries */
#define PAUSE_MORE  200

const char *link_server_name(const struct link *link)
{
	return route_name(&link->route, link->server);
}

static enum io_result fail_memory(struct failure *failure)
{
	failure_set(failure, EXIT_SYSTEM, "out of memory");
	return IO_FAILED;
}

/* Connects, and leaves the greeting in the buffer. */
static enum io_result start(struct link *link, struct deadline deadline, struct failure *failure)
{
	enum io_result result;

	if (link->dials > 0 && !link->heard) /* the URL's own is tried again */
		link->route.home.host[0] = link->route.once.host[0] = '\0';
	link->borrowed = link->route.once.host[0] != '\0';
	result = route_connect(
		&link->route, link->server, &link->connection, &link->lookup, deadline, failure);
	if (result != IO_OK) {
		link->connection = NULL;
		return result;
	}
	link->dials++;
	if (redis_form(link->server) == REDIS_SENTINEL)
		link->named_at = clock_now();
	link->waiting = link->owes = link->landed = link->heard = false;
	return handshake_begin(&link->handshake, link->connection, link->server)
		       ? IO_OK
		       : fail_memory(failure);
}

void link_drop(struct link *link)
{
	if (link->connection && link->waiting)
		connection_drain(link->connection);
	if (link->connection)
		connection_close(link->connection);
	link->connection = NULL;
	link->waiting = link->owes = false;
}

bool link_is_current(struct link *link, struct deadline deadline)
{
	struct failure unheard;
	struct place master;

	if (redis_form(link->server) != REDIS_SENTINEL || clock_now() - link->named_at < NAMED_FOR)
		return true;
	/* Sentinels that do not answer are no reason to leave a server that does. */
	if (sentinel_find(link->server, &link->route.first, &master,
		    deadline_within(deadline, NAMED_LIMIT), &unheard) != IO_OK)
		return true;
	link->named_at = clock_now();
	return route_leads_to(&link->route, &master);
}

void link_close(struct link *link)
{
	link_drop(link);
	resolve_abandon(link->lookup);
	link->lookup = NULL;
}

/* Bytes that are left unread would be taken for the answer to the next request. */
static enum io_result end(struct link *link, enum io_result result)
{
	if (result != IO_OK)
		link_drop(link);
	return result;
}

/* Reads what is still to come of the handshake. IO_OK: a refusal may be among it. */
static enum io_result read_handshake(
	struct link *link, struct deadline deadline, struct failure *failure)
{
	while (link->handshake.due > 0) {
		struct reply *reply;
		enum io_result result =
			connection_read(link->connection, &reply, deadline, failure);

		if (result != IO_OK)
			return result;
		link->heard = true;
		handshake_take(&link->handshake, link->server, link_server_name(link), reply);
		reply_free(reply);
	}
	return IO_OK;
}

static enum io_result greet(struct link *link, struct deadline deadline, struct failure *failure)
{
	enum io_result result = IO_OK;

	if (!link->connection)
		result = start(link, deadline, failure);
	if (result == IO_OK)
		result = connection_flush(link->connection, deadline, failure);
	if (result == IO_OK)
		result = read_handshake(link, deadline, failure);
	if (result == IO_OK && link->handshake.refusal.code != EXIT_DONE) {
		*failure = link->handshake.refusal;
		result = failure->code == EXIT_UNREACHABLE ? IO_AGAIN : IO_FAILED;
	}
	return end(link, result);
}

bool link_pause(struct deadline deadline, bool *cancelled)
{
	nanos span = (PAUSE_LEAST + clock_jitter(PAUSE_MORE)) * NANOS_PER_MS;

	*cancelled = !deadline_pause(deadline, span);
	return !*cancelled && clock_now() < deadline.until;
}

/* Sentinels name the old master until they have agreed on another one. */
enum io_result link_open(struct link *link, struct deadline deadline, struct failure *failure)
{
	enum io_result result;
	bool cancelled = false;

	if (link->connection && !link->waiting && link->handshake.due == 0)
		return IO_OK;
	if (link->waiting)
		link_drop(link);
	if (redis_form(link->server) != REDIS_SENTINEL)
		return greet(link, deadline, failure);
	do {
		result = greet(link, deadline_within(deadline, GREET_LIMIT), failure);
		if (result == IO_TIMEOUT)
			result = IO_AGAIN;
	} while (result == IO_AGAIN && link_pause(deadline, &cancelled));
	return cancelled ? IO_CANCELLED : result;
}

static enum io_result send_call(struct link *link, struct call *call, bool in_full,
	struct deadline deadline, struct failure *failure)
{
	if (link->borrowed && !handshake_append_asking(&link->handshake, link->connection))
		return fail_memory(failure);
	if (!call_append(call, link->connection, in_full))
		return fail_memory(failure);
	link->waiting = true;
	link->owes = call->replicas > 0;
	link->sent_at = clock_now();
	return connection_flush(link->connection, deadline, failure);
}

/* A connection on which nothing is under way, but perhaps the greeting. */
static enum io_result make_ready(
	struct link *link, struct deadline deadline, struct failure *failure)
{
	if (link->connection &&
		(link->waiting || link->owes || link->borrowed || !link_is_current(link, deadline)))
		link_drop(link);
	link->moving = false;
	/* Behind a SELECT that fails, the lock would be taken in database 0; behind a ROLE, perhaps
	 * in a replica that can be written to. */
	if (link->server->db != 0 || redis_form(link->server) == REDIS_SENTINEL)
		return link_open(link, deadline, failure);
	return link->connection ? IO_OK : start(link, deadline, failure);
}

enum io_result link_send(
	struct link *link, struct call *call, struct deadline deadline, struct failure *failure)
{
	enum io_result result = make_ready(link, deadline, failure);

	if (result == IO_OK)
		result = send_call(link, call, false, deadline, failure);
	return end(link, result);
}

bool link_write_behind(struct link *link, struct call *call)
{
	struct deadline none = {.cancel_fd = -1};
	struct failure unheard;

	if (!link->connection || !call_append(call, link->connection, true))
		return false;
	link->waiting = true;
	return connection_flush(link->connection, none, &unheard) == IO_OK;
}

/* Redis 7.0 says only where, from 7.2 on also which. */
static void name_right(const struct call *call, const char *text, struct failure *failure)
{
	char command[24];

	if (script_command_at(call->script, error_reply_line(text), command))
		failure_set(failure, failure->code, "%s: +%s is missing", failure->text, command);
}

/* Behind an error the replicas are of no interest, but a reply about them is to come. */
static enum io_result skip_owed(
	struct link *link, struct deadline deadline, struct failure *failure)
{
	struct reply *reply;
	enum io_result result = IO_OK;

	if (link->owes)
		result = connection_read(link->connection, &reply, deadline, failure);
	if (link->owes && result == IO_OK)
		reply_free(reply);
	link->owes = false;
	return result;
}

/* Sends the call where the redirect leads. */
static enum io_result follow(struct link *link, struct call *call, const char *text, bool *again,
	struct deadline deadline, struct failure *failure)
{
	bool once;
	enum io_result result = route_redirect(&link->route, link->server, text, &once, failure);

	link->heard = true;
	link_drop(link);
	if (result != IO_OK)
		return result;
	*failure = (struct failure){0}; /* as below */
	result = start(link, deadline, failure);
	if (result == IO_OK)
		result = send_call(link, call, false, deadline, failure);
	*again = result == IO_OK;
	return result;
}

/* An error reply to the request. *again: it was sent in full, wait for that. */
static enum io_result handle_error(struct link *link, struct call *call, const char *text,
	bool *again, struct deadline deadline, struct failure *failure)
{
	enum error_reply_kind kind = error_reply_read(text, link_server_name(link), failure);
	enum io_result result;

	if (link->handshake.refusal.code != EXIT_DONE) {
		*failure = link->handshake.refusal;
		link_drop(link);
		return failure->code == EXIT_UNREACHABLE ? IO_AGAIN : IO_FAILED;
	}
	switch (kind) {
	case ERROR_REPLY_NO_SCRIPT:
		if (call->words[1] != call->script->sha)
			return IO_FAILED;
		/* If time is up before it has gone in full, or is answered, that is no fault. */
		*failure = (struct failure){0};
		result = skip_owed(link, deadline, failure);
		if (result == IO_OK)
			result = send_call(link, call, true, deadline, failure);
		*again = result == IO_OK;
		return result;
	case ERROR_REPLY_REDIRECT:
		return follow(link, call, text, again, deadline, failure);
	case ERROR_REPLY_MOVING:
		link->moving = true;
		return IO_AGAIN;
	case ERROR_REPLY_AGAIN:
		return IO_AGAIN;
	case ERROR_REPLY_MOVED_AWAY:
		link_drop(link);
		return IO_AGAIN;
	case ERROR_REPLY_WRONG_TYPE:
		failure_set(failure, EXIT_PROTOCOL,
			"the key '%s' holds other data than a lock and was left alone; use another "
			"NAME or --prefix",
			link->key);
		return IO_FAILED;
	case ERROR_REPLY_NO_RIGHT:
		name_right(call, text, failure);
		return IO_FAILED;
	case ERROR_REPLY_FINAL:
		break;
	}
	return IO_FAILED;
}

static enum io_result receive(struct link *link, struct call *call, struct reply **reply,
	struct deadline deadline, struct failure *failure)
{
	enum io_result result = IO_OK;
	bool again = true;

	while (again && result == IO_OK) {
		result = read_handshake(link, deadline, failure);
		if (result == IO_OK)
			result = connection_read(link->connection, reply, deadline, failure);
		if (result != IO_OK)
			break;
		again = false;
		link->heard = true;
		link->waiting = false;
		if (!reply_error(*reply)) {
			link->route.redirects = 0;
			break;
		}
		result = handle_error(link, call, reply_error(*reply), &again, deadline, failure);
		reply_free(*reply);
	}
	/* After IO_TIMEOUT what is under way can still be ended behind it: lock_release. */
	if (result == IO_CLOSED)
		link_drop(link);
	return result;
}

enum io_result link_receive(struct link *link, struct call *call, struct reply **reply,
	struct deadline deadline, struct failure *failure)
{
	enum io_result result = receive(link, call, reply, deadline, failure);

	if (result == IO_CLOSED && link->handshake.refusal.code != EXIT_DONE) {
		*failure = link->handshake.refusal;
		return IO_FAILED;
	}
	if (result != IO_OK || link->handshake.refusal.code == EXIT_DONE)
		return result;
	/* The password was refused, but the server had not asked for one. */
	reply_free(*reply);
	*failure = link->handshake.refusal;
	link->landed = true;
	return IO_FAILED;
}

enum io_result link_confirm(
	struct link *link, int64_t *replicas, struct deadline deadline, struct failure *failure)
{
	struct reply *reply;
	enum io_result result = connection_read(link->connection, &reply, deadline, failure);

	if (result != IO_OK) {
		link->waiting = true;
		return result;
	}
	link->owes = false;
	*replicas = reply_integer(reply);
	if (reply_error(reply)) {
		error_reply_read(reply_error(reply), link_server_name(link), failure);
		result = IO_FAILED;
	}
	reply_free(reply);
	return result;
}

enum io_result link_handle_error(struct link *link, const char *text, struct failure *failure)
{
	bool once;

	link->heard = true;
	switch (error_reply_read(text, link_server_name(link), failure)) {
	case ERROR_REPLY_REDIRECT:
		route_redirect(&link->route, link->server, text, &once, failure);
		link->route.once.host[0] = '\0';
		return IO_CLOSED;
	case ERROR_REPLY_MOVING:
	case ERROR_REPLY_AGAIN:
	case ERROR_REPLY_MOVED_AWAY:
		return IO_CLOSED;
	default:
		return IO_FAILED;
	}
}

enum io_result link_call(struct link *link, struct call *call, struct reply **reply,
	struct deadline deadline, struct failure *failure)
{
	bool used = link->connection && !link->waiting;

	for (;; used = false) {
		enum io_result result = link_send(link, call, deadline, failure);

		if (result == IO_OK)
			result = link_receive(link, call, reply, deadline, failure);
		if (result != IO_CLOSED || !used)
			return result;
		link_drop(link);
	}
}

static enum io_result send_several(struct link *link, const struct link_calls *calls, bool in_full,
	struct deadline deadline, struct failure *failure)
{
	struct call call;

	/* After ASKING it is for one request only. */
	if (link->borrowed)
		return IO_AGAIN;
	for (size_t i = 0; i < calls->count; i++) {
		calls->begin(calls->context, i, &call);
		if (!call_append(&call, link->connection, in_full && i == 0))
			return fail_memory(failure);
	}
	link->waiting = true;
	link->sent_at = clock_now();
	return connection_flush(link->connection, deadline, failure);
}

/* *unknown: the server does not know the script. */
static enum io_result read_several(struct link *link, const struct link_calls *calls, bool *unknown,
	struct deadline deadline, struct failure *failure)
{
	enum io_result result = read_handshake(link, deadline, failure);

	if (result == IO_OK && link->handshake.refusal.code != EXIT_DONE) {
		*failure = link->handshake.refusal;
		return IO_FAILED;
	}
	*unknown = false;
	for (size_t i = 0; i < calls->count && result == IO_OK; i++) {
		struct reply *reply;

		result = connection_read(link->connection, &reply, deadline, failure);
		if (result != IO_OK)
			break;
		link->heard = true;
		if (!reply_error(reply))
			calls->read(calls->context, i, reply);
		else if (error_reply_read(reply_error(reply), link_server_name(link), failure) ==
			 ERROR_REPLY_NO_SCRIPT)
			*unknown = true;
		reply_free(reply);
	}
	link->waiting = false;
	return result;
}

enum io_result link_call_several(struct link *link, const struct link_calls *calls,
	struct deadline deadline, struct failure *failure)
{
	bool used = link->connection && !link->waiting;
	bool unknown = false;
	enum io_result result;

	for (;;) {
		bool in_full = unknown;

		result = make_ready(link, deadline, failure);
		if (result == IO_OK)
			result = send_several(link, calls, in_full, deadline, failure);
		if (result == IO_OK)
			result = read_several(link, calls, &unknown, deadline, failure);
		end(link, result);
		if (result == IO_CLOSED && used)
			used = false;
		else if (result != IO_OK || !unknown || in_full)
			return result;
	}
}

void link_lend(struct link *to, struct link *from)
{
	const char *key = to->key;
	bool elsewhere = from->route.home.host[0] != '\0';

	if (to->connection || !from->connection || from->waiting || from->owes || from->borrowed ||
		from->handshake.due > 0 || (elsewhere && keys_slot(key) != keys_slot(from->key)))
		return;
	resolve_abandon(to->lookup);
	*to = *from;
	to->key = key;
	from->connection = NULL;
	from->lookup = NULL;
}
