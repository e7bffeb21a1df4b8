#include "redis/link/handshake.h"

#include <stdio.h>
#include <string.h>

#include "base/failure.h"
#include "net/server.h"
#include "redis/redis_url.h"
#include "redis/link/connection.h"
#include "redis/link/error_reply.h"
#include "redis/link/link.h"

static bool append_words(struct connection *connection, size_t count, const char *const *words)
{
	size_t lengths[3];

	for (size_t i = 0; i < count; i++)
		lengths[i] = strlen(words[i]);
	return connection_append(connection, count, words, lengths);
}

bool handshake_append(struct link *link)
{
	const struct server *server = link->server;
	const char *as_default[] = {"AUTH", server->password};
	const char *as_user[] = {"AUTH", server->user, server->password ? server->password : ""};
	char db[16];
	const char *select[] = {"SELECT", db};
	bool done = true;

	if (server->user) {
		done = append_words(link->connection, 3, as_user);
		link->handshakes++;
	} else if (server->password) {
		done = append_words(link->connection, 2, as_default);
		link->handshakes++;
	}
	if (server->db != 0) {
		snprintf(db, sizeof(db), "%d", server->db);
		done = done && append_words(link->connection, 2, select);
		link->handshakes++;
	}
	if (redis_form(server) == REDIS_SENTINEL) {
		const char *role[] = {"ROLE"};

		done = done && append_words(link->connection, 1, role);
		link->handshakes++;
	}
	return done;
}

bool handshake_append_asking(struct link *link)
{
	const char *asking[] = {"ASKING"};

	link->handshakes++;
	return append_words(link->connection, 1, asking);
}

/* Behind Sentinels a server may have been the master until a moment ago. One that tells this user
 * nothing of its role still refuses to write where it is a replica. */
static void handle_greeting(struct link *link, const struct reply *reply)
{
	const char *error = reply_error(reply);
	const char *role = reply_text(reply_at(reply, 0));

	link->heard = true;
	if (link->refusal.code != EXIT_DONE)
		return;
	if (role && strcmp(role, "master") != 0)
		failure_set(&link->refusal, EXIT_UNREACHABLE, "%s is not a master now (%s)",
			link_server_name(link), role);
	else if (error && !(redis_form(link->server) == REDIS_SENTINEL && link->handshakes == 1 &&
				  strncmp(error, "NOPERM", 6) == 0))
		error_reply_read(error, link_server_name(link), &link->refusal);
}

/* The first refusal is kept: the replies behind it only follow
 * from it. What cannot be now (LOADING) is said by the request's own reply as well. */
enum io_result handshake_read(struct link *link, struct deadline deadline, struct failure *failure)
{
	for (; link->handshakes > 0; link->handshakes--) {
		struct reply *reply;
		enum io_result result =
			connection_read(link->connection, &reply, deadline, failure);

		if (result != IO_OK)
			return result;
		handle_greeting(link, reply);
		reply_free(reply);
	}
	return IO_OK;
}
