#include "redis/link/link.h"

#include <string.h>

#include "base/number.h"
#include "net/password.h"
#include "net/resolve.h"
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

/* Puts a command that goes before the request into the buffer; one reply more is due then. */
static void append_before(struct link *link, const char *const *words)
{
	link->due++;
	connection_append(link->connection, words);
}

/* AUTH, SELECT and behind Sentinels ROLE, as far as they are needed. */
static void append_greeting(struct link *link)
{
	const struct server *server = link->server;
	char *password = server_password(server);
	char db[NUMBER_SIZE];

	link->due = 0;
	link->refusal.code = EXIT_DONE;
	if (server->user)
		append_before(link, WORDS("AUTH", server->user, password ? password : ""));
	else if (password)
		append_before(link, WORDS("AUTH", password));
	password_forget(password);
	if (server->db != 0)
		append_before(link, WORDS("SELECT", number_text(db, server->db)));
	if (redis_form(server) == REDIS_SENTINEL)
		append_before(link, WORDS("ROLE"));
}

/* Only the first refusal is kept: the replies behind it follow from it. The request's own reply
 * says as well that something cannot be now (LOADING). Behind Sentinels a server may have been the
 * master until a moment ago. A server that tells this user nothing of its role still refuses to
 * write if it is a replica. */
static void take_before(struct link *link, const struct reply *reply)
{
	const struct server *server = link->server;
	const char *name = link_server_name(link);
	const char *error = reply_error(reply);
	const char *role = reply_text(reply_at(reply, 0));
	bool is_role = redis_form(server) == REDIS_SENTINEL && link->due == 1;

	link->due--;
	if (link->refusal.code != EXIT_DONE)
		return;
	if (role && strcmp(role, "master") != 0)
		failure_set(&link->refusal, EXIT_UNREACHABLE, "%s is not a master now (%s)", name,
			role);
	else if (error && !(is_role && strncmp(error, "NOPERM", 6) == 0))
		error_reply_read(error, name, &link->refusal);
	if (link->refusal.code == EXIT_REFUSED && server->user && !server->password)
		failure_set(&link->refusal, EXIT_REFUSED,
			"%s; a password without a user's name has a colon before it: "
			"redis://:PASSWORD@HOST",
			link->refusal.text);
}

/* IO_OK: the greeting was not refused, as far as is known. */
static enum io_result see_refusal(const struct link *link, struct failure *failure)
{
	if (link->refusal.code == EXIT_DONE)
		return IO_OK;
	*failure = link->refusal;
	return failure->code == EXIT_UNREACHABLE ? IO_AGAIN : IO_FAILED;
}

/* Connects, and leaves the greeting in the buffer. */
static enum io_result start(struct link *link, struct deadline deadline, struct failure *failure)
{
	enum io_result result;

	if (link->dials > 0 && !link->heard) /* the URL's own is tried again */
		link->route.home.host[0] = link->route.once.host[0] = '\0';
	link->borrowed = link->route.once.host[0] != '\0';
	result = route_connect(link, deadline, failure);
	if (result != IO_OK) {
		link->connection = NULL;
		return result;
	}
	link->dials++;
	if (redis_form(link->server) == REDIS_SENTINEL)
		link->named_at = clock_now();
	link->waiting = link->owes = link->heard = false;
	append_greeting(link);
	return IO_OK;
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
	return link->route.last.port == master.port &&
	       strcmp(link->route.last.host, master.host) == 0;
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

/* Reads what is still to come before the reply to the request. IO_OK: a refusal may be among it. */
static enum io_result read_before(
	struct link *link, struct deadline deadline, struct failure *failure)
{
	while (link->due > 0) {
		struct reply *reply;
		enum io_result result =
			connection_read(link->connection, &reply, deadline, failure);

		if (result != IO_OK)
			return result;
		link->heard = true;
		take_before(link, reply);
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
		result = read_before(link, deadline, failure);
	if (result == IO_OK)
		result = see_refusal(link, failure);
	return end(link, result);
}

bool link_pause(struct deadline deadline, enum io_result *io)
{
	nanos span = (PAUSE_LEAST + clock_jitter(PAUSE_MORE)) * NANOS_PER_MS;

	if (deadline_pause(deadline, span))
		return clock_now() < deadline.until;
	*io = IO_CANCELLED;
	return false;
}

/* Only a connection on which nothing is under way, but perhaps the greeting, is used again. */
static void drop_unfit(struct link *link, struct deadline deadline)
{
	if (link->connection &&
		(link->waiting || link->owes || link->borrowed || !link_is_current(link, deadline)))
		link_drop(link);
}

/* Sentinels name the old master until they have agreed on another one. */
enum io_result link_open(struct link *link, struct deadline deadline, struct failure *failure)
{
	enum io_result result;

	drop_unfit(link, deadline);
	if (link->connection && link->due == 0)
		return IO_OK;
	if (redis_form(link->server) != REDIS_SENTINEL)
		return greet(link, deadline, failure);
	do {
		result = greet(link, deadline_within(deadline, GREET_LIMIT), failure);
		if (result == IO_TIMEOUT)
			result = IO_AGAIN;
	} while (result == IO_AGAIN && link_pause(deadline, &result));
	return result;
}

static enum io_result send_call(struct link *link, struct call *call, bool in_full,
	struct deadline deadline, struct failure *failure)
{
	if (link->borrowed)
		append_before(link, WORDS("ASKING"));
	call_append(call, link->connection, in_full);
	link->waiting = true;
	link->owes = call->replicas > 0;
	link->sent_at = clock_now();
	return connection_flush(link->connection, deadline, failure);
}

enum io_result link_send(
	struct link *link, struct call *call, struct deadline deadline, struct failure *failure)
{
	enum io_result result = IO_OK;

	link->moving = false;
	drop_unfit(link, deadline);
	/* Behind a SELECT that fails, the lock would be taken in database 0; behind a ROLE, perhaps
	 * in a replica that can be written to. */
	if (link->server->db != 0 || redis_form(link->server) == REDIS_SENTINEL)
		result = link_open(link, deadline, failure);
	else if (!link->connection)
		result = start(link, deadline, failure);
	if (result == IO_OK)
		result = send_call(link, call, false, deadline, failure);
	return end(link, result);
}

bool link_write_behind(struct link *link, struct call *call)
{
	struct deadline none = {.cancel_fd = -1};
	struct failure unheard;

	if (!link->connection)
		return false;
	call_append(call, link->connection, true);
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
static enum io_result follow(struct link *link, struct call *call, const char *text,
	struct deadline deadline, struct failure *failure)
{
	enum io_result result = route_redirect(link, text, failure);

	link->heard = true;
	link_drop(link);
	if (result != IO_OK)
		return result;
	*failure = (struct failure){0}; /* as below */
	return link_send(link, call, deadline, failure);
}

/* An error reply to the request. IO_OK: it was sent again, wait for that. */
static enum io_result handle_error(struct link *link, struct call *call, const char *text,
	struct deadline deadline, struct failure *failure)
{
	enum error_reply_kind kind = error_reply_read(text, link_server_name(link), failure);
	enum io_result result = see_refusal(link, failure);

	if (result != IO_OK)
		return end(link, result);
	switch (kind) {
	case ERROR_REPLY_NO_SCRIPT:
		if (call->words[1] != call->script->sha)
			return IO_FAILED;
		/* If time is up before it has gone in full, or is answered, that is no fault. */
		*failure = (struct failure){0};
		result = skip_owed(link, deadline, failure);
		return result == IO_OK ? send_call(link, call, true, deadline, failure) : result;
	case ERROR_REPLY_REDIRECT:
		return follow(link, call, text, deadline, failure);
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

	while (result == IO_OK) {
		result = read_before(link, deadline, failure);
		if (result == IO_OK)
			result = connection_read(link->connection, reply, deadline, failure);
		if (result != IO_OK)
			break;
		link->heard = true;
		link->waiting = false;
		if (!reply_error(*reply)) {
			link->route.redirects = 0;
			break;
		}
		result = handle_error(link, call, reply_error(*reply), deadline, failure);
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

	if (link->refusal.code == EXIT_DONE || (result != IO_OK && result != IO_CLOSED))
		return result;
	/* The password was refused, but the server had not asked for one: a release takes back what
	 * it did. */
	if (result == IO_OK)
		reply_free(*reply);
	*failure = link->refusal;
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
	enum error_reply_kind kind = error_reply_read(text, link_server_name(link), failure);

	link->heard = true;
	if (kind == ERROR_REPLY_REDIRECT) {
		route_redirect(link, text, failure);
		link->route.once.host[0] = '\0';
	}
	return kind == ERROR_REPLY_REDIRECT || kind == ERROR_REPLY_MOVING ||
			       kind == ERROR_REPLY_AGAIN || kind == ERROR_REPLY_MOVED_AWAY
		       ? IO_CLOSED
		       : IO_FAILED;
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

enum io_result link_ask(struct link *link, struct reply **reply, const char *const *words,
	struct deadline deadline, struct failure *failure)
{
	enum io_result io = connection_call(link->connection, reply, words, deadline, failure);

	if (io != IO_OK || !reply_error(*reply))
		return io;
	error_reply_read(reply_error(*reply), link_server_name(link), failure);
	reply_free(*reply);
	return IO_FAILED;
}

void link_lend(struct link *to, struct link *from)
{
	const char *key = to->key;
	bool elsewhere = from->route.home.host[0] != '\0';

	if (to->connection || !from->connection || from->waiting || from->owes || from->borrowed ||
		from->due > 0 || (elsewhere && keys_slot(key) != keys_slot(from->key)))
		return;
	resolve_abandon(to->lookup);
	*to = *from;
	to->key = key;
	from->connection = NULL;
	from->lookup = NULL;
}
