
#include "redis/quorum/quorum.h"

#include <bsd/string.h>
#include <string.h>

#include "base/number.h"

void quorum_write_token(const struct quorum *quorum, unsigned attempt, char *token)
{
	char *at = stpcpy(stpcpy(token, quorum->request.self.host), ":");

	at = stpcpy(number_write(at, quorum->request.self.pid), ":");
	number_write_hex(number_write_hex(at, quorum->random[0]), quorum->random[1] + attempt);
}

bool quorum_sync(struct quorum *quorum, struct failure *failure)
{
	const struct lock_request *request = &quorum->request;
	unsigned attempt = atomic_load(quorum->attempt);

	if (quorum->keyed == attempt && quorum->keys.memory)
		return true;
	quorum->keyed = attempt;
	if (request->token)
		strlcpy(quorum->lock.token, request->token, sizeof(quorum->lock.token));
	else
		quorum_write_token(quorum, attempt, quorum->lock.token);
	keys_free(&quorum->keys);
	return keys_make(&quorum->keys, request->prefix, request->name, quorum->lock.token) ||
	       failure_set(failure, EXIT_SYSTEM, "out of memory");
}

bool quorum_refuse_many(const struct server *server, struct failure *failure)
{
	return failure_set(failure, EXIT_USAGE, "more than %d servers in the server URL '%s'",
		PEERS_MOST, server->text);
}

void quorum_leave(struct lock *lock)
{
	struct quorum *quorum = (struct quorum *)lock;
	struct failure unheard;

	quorum_sync(quorum, &unheard);
	for (size_t i = 0; i < quorum->count; i++)
		peer_forget(&quorum->peers[i]);
}
