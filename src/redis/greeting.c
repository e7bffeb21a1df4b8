#include "redis/greeting.h"

#include <stdio.h>
#include <string.h>

#include "failure.h"
#include "redis/connection.h"
#include "redis/fault.h"
#include "redis/session.h"
#include "server.h"

static bool append_words(struct connection *connection, size_t count, const char *const *words)
{
	size_t lengths[3];

	for (size_t i = 0; i < count; i++)
		lengths[i] = strlen(words[i]);
	return connection_append(connection, count, words, lengths);
}

bool greeting_append(struct session *session)
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
	if (server->db != 0) {
		snprintf(db, sizeof(db), "%d", server->db);
		done = done && append_words(session->connection, 2, select);
		session->greetings++;
	}
	if (server->scheme == SERVER_SENTINEL) {
		const char *role[] = {"ROLE"};

		done = done && append_words(session->connection, 1, role);
		session->greetings++;
	}
	return done;
}

bool greeting_append_asking(struct session *session)
{
	const char *asking[] = {"ASKING"};

	session->greetings++;
	return append_words(session->connection, 1, asking);
}

/* Behind Sentinels a server may have been the master until a moment ago. One that tells this user
 * nothing of its role still refuses to write where it is a replica. */
static void heed_greeting(struct session *session, const struct reply *reply)
{
	const char *error = reply_error(reply);
	const char *role = reply_text(reply_at(reply, 0));

	session->heard = true;
	if (session->refusal.code != EXIT_DONE)
		return;
	if (role && strcmp(role, "master") != 0)
		failure_set(&session->refusal, EXIT_UNREACHABLE, "%s is not a master now (%s)",
			session_peer(session), role);
	else if (error && !(session->server->scheme == SERVER_SENTINEL && session->greetings == 1 &&
				  strncmp(error, "NOPERM", 6) == 0))
		fault_read(error, session_peer(session), &session->refusal);
}

/* The first refusal is kept: the replies behind it only follow
 * from it. What cannot be now (LOADING) is said by the request's own reply as well. */
enum wire greeting_read(struct session *session, struct patience patience, struct failure *failure)
{
	for (; session->greetings > 0; session->greetings--) {
		struct reply *reply;
		enum wire result = connection_read(session->connection, &reply, patience, failure);

		if (result != WIRE_OK)
			return result;
		heed_greeting(session, reply);
		reply_free(reply);
	}
	return WIRE_OK;
}
