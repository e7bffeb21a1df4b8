#include "redis/link/handshake.h"

#include <stdio.h>
#include <string.h>

#include "net/password.h"
#include "net/server.h"
#include "redis/redis_url.h"
#include "redis/link/connection.h"
#include "redis/link/error_reply.h"

/* Puts a command into the buffer; one reply more is due then. */
static bool append_words(
	struct handshake *handshake, struct connection *connection, const char *const *words)
{
	handshake->due++;
	return connection_append_words(connection, words);
}

static bool append_auth(
	struct handshake *handshake, struct connection *connection, const struct server *server)
{
	char *known = password_of(server);
	const char *password = known ? known : "";
	bool done = true;

	if (server->user)
		done = append_words(handshake, connection, WORDS("AUTH", server->user, password));
	else if (known)
		done = append_words(handshake, connection, WORDS("AUTH", password));
	password_forget(known);
	return done;
}

bool handshake_begin(
	struct handshake *handshake, struct connection *connection, const struct server *server)
{
	char db[16];
	bool done;

	handshake->due = 0;
	handshake->refusal.code = EXIT_DONE;
	done = append_auth(handshake, connection, server);
	if (server->db != 0) {
		snprintf(db, sizeof(db), "%d", server->db);
		done = done && append_words(handshake, connection, WORDS("SELECT", db));
	}
	if (redis_form(server) == REDIS_SENTINEL)
		done = done && append_words(handshake, connection, WORDS("ROLE"));
	return done;
}

bool handshake_append_asking(struct handshake *handshake, struct connection *connection)
{
	return append_words(handshake, connection, WORDS("ASKING"));
}

/* Only the first refusal is kept: the replies behind it follow from it. The request's own reply
 * says as well that something cannot be now (LOADING). Behind Sentinels a server may have been the
 * master until a moment ago. A server that tells this user nothing of its role still refuses to
 * write if it is a replica. */
void handshake_take(struct handshake *handshake, const struct server *server, const char *name,
	const struct reply *reply)
{
	const char *error = reply_error(reply);
	const char *role = reply_text(reply_at(reply, 0));
	bool is_role = redis_form(server) == REDIS_SENTINEL && handshake->due == 1;

	handshake->due--;
	if (handshake->refusal.code != EXIT_DONE)
		return;
	if (role && strcmp(role, "master") != 0)
		failure_set(&handshake->refusal, EXIT_UNREACHABLE, "%s is not a master now (%s)",
			name, role);
	else if (error && !(is_role && strncmp(error, "NOPERM", 6) == 0))
		error_reply_read(error, name, &handshake->refusal);
	if (handshake->refusal.code == EXIT_REFUSED && server->user && !server->password)
		failure_set(&handshake->refusal, EXIT_REFUSED,
			"%s; a password without a user's name has a colon before it: "
			"redis://:PASSWORD@HOST",
			handshake->refusal.text);
}
