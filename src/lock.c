#include "lock.h"

#include <stdlib.h>

#include "backend.h"
#include "redis/quorum.h"
#include "redis/single.h"
#include "redis/tls.h"
#include "server.h"

/* Which lock service speaks what a URL's scheme stands for; NULL: none does yet. */
static const struct backend *const backends[] = {
	[SERVER_REDIS] = &single_backend,
	[SERVER_UNIX] = &single_backend,
	[SERVER_SENTINEL] = &single_backend,
	[SERVER_QUORUM] = &quorum_backend,
};

static const struct backend *find_backend(const struct server *server, struct failure *failure)
{
	const struct backend *backend = backends[server->scheme];

	if (server->tls && !tls_layer) {
		failure_set(failure, EXIT_USAGE, "cannot use %s: this dlock was built without TLS",
			server->text);
		return NULL;
	}
	if (!backend)
		failure_set(failure, EXIT_USAGE,
			"cannot use %s: this dlock knows single servers only", server->text);
	return backend;
}

struct lock *lock_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	const struct backend *backend = find_backend(server, failure);

	return backend ? backend->open(server, request, failure) : NULL;
}

void lock_close(struct lock *lock)
{
	lock->backend->close(lock);
}

enum lock_result lock_ask(struct lock *lock, struct patience patience, struct failure *failure)
{
	return lock->backend->ask(lock, patience, failure);
}

void lock_answer(struct lock *lock, struct patience patience, struct lock_answer *answer)
{
	lock->backend->answer(lock, patience, answer);
}

void lock_learn(struct lock *lock, const struct lock_answer *answer)
{
	lock->backend->learn(lock, answer);
}

bool lock_is_busy(const struct lock *lock)
{
	return lock->backend->is_busy && lock->backend->is_busy(lock);
}

enum lock_result lock_listen(struct lock *lock, struct patience patience, struct failure *failure)
{
	return lock->backend->listen(lock, patience, failure);
}

void lock_renew(struct lock *lock, struct patience patience, struct lock_answer *answer)
{
	lock->backend->renew(lock, patience, answer);
}

void lock_release(struct lock *lock, const struct lock_parting *parting, struct patience patience,
	struct lock_answer *answer)
{
	lock->backend->release(lock, parting, patience, answer);
}

bool lock_part(struct lock *lock, const struct lock_parting *parting, struct patience patience)
{
	return lock->backend->part && lock->backend->part(lock, parting, patience);
}

void lock_hear(struct lock *lock, const struct lock_parting *parting, struct patience patience,
	struct lock_answer *answer)
{
	lock->backend->hear(lock, parting, patience, answer);
}

void lock_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct patience patience, struct lock_answer *answer)
{
	if (lock->backend->force) {
		lock->backend->force(lock, tell, context, patience, answer);
		return;
	}
	answer->result = LOCK_FAILED;
	answer->handed_count = 0;
	failure_set(&answer->failure, EXIT_USAGE, "this lock service knows no way to break a lock");
}

enum lock_result lock_verify(
	struct lock *lock, struct lock_answer *answer, struct patience patience)
{
	return lock->backend->verify(lock, answer, patience);
}

void lock_reset(struct lock *lock)
{
	lock->backend->reset(lock);
}

int lock_watch_fd(const struct lock *lock)
{
	return lock->backend->watch_fd(lock);
}

const char *lock_token(const struct lock *lock)
{
	return lock->backend->token(lock);
}

const char *lock_fences(struct lock *lock)
{
	return lock->backend->fences ? lock->backend->fences(lock) : NULL;
}

bool lock_survey(const struct server *server, const char *prefix, char *const *patterns,
	size_t pattern_count, bool idle_too,
	void (*show)(const struct lock_view *view, void *context), void *context,
	struct patience patience, struct failure *failure)
{
	const struct backend *backend = find_backend(server, failure);

	return backend && backend->survey(server, prefix, patterns, pattern_count, idle_too, show,
				  context, patience, failure);
}

struct lock_lookout {
	const struct backend *backend;
	const struct server *server;
	const char *prefix;
	char *const *patterns;
	size_t pattern_count;
	void *state; /* owned, the backend's; NULL: it keeps none */
};

struct lock_lookout *lock_lookout_open(const struct server *server, const char *prefix,
	char *const *patterns, size_t pattern_count, struct failure *failure)
{
	const struct backend *backend = find_backend(server, failure);
	struct lock_lookout *lookout = backend ? malloc(sizeof(*lookout)) : NULL;

	if (!lookout) {
		if (backend)
			failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	*lookout = (struct lock_lookout){backend, server, prefix, patterns, pattern_count, NULL};
	if (!backend->look_open)
		return lookout;
	lookout->state = backend->look_open(server, prefix, patterns, pattern_count, failure);
	if (lookout->state)
		return lookout;
	free(lookout);
	return NULL;
}

bool lock_look(struct lock_lookout *lookout,
	void (*show)(const struct lock_view *view, void *context), void *context,
	struct patience patience, struct failure *failure)
{
	const struct backend *backend = lookout->backend;

	if (lookout->state)
		return backend->look(lookout->state, show, context, patience, failure);
	return backend->survey(lookout->server, lookout->prefix, lookout->patterns,
		lookout->pattern_count, false, show, context, patience, failure);
}

void lock_lookout_close(struct lock_lookout *lookout)
{
	if (lookout->state)
		lookout->backend->look_close(lookout->state);
	free(lookout);
}

bool lock_examine(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure)
{
	/* Those of a quorum are looked at one by one, and each as one that is alone. */
	struct server each = *server;
	const struct backend *backend;

	if (each.scheme == SERVER_QUORUM)
		each.scheme = SERVER_REDIS;
	backend = find_backend(&each, failure);
	return backend && backend->examine(server, request, take, context, failure);
}
