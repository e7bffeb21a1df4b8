#include "lock/lock.h"

#include <stdlib.h>
#include <string.h>

#include "lock/service.h"
#include "lock/services.h"
#include "net/server.h"

#define RETRY_LEAST 50 /* ms between two tries to release */
#define RETRY_MORE  200

static unsigned needed(const struct lock_request *request)
{
	return (request->mode == LOCK_SHARED ? LOCK_CAN_SHARE : 0U) |
	       (request->mode == LOCK_PERMITS ? LOCK_CAN_PERMITS : 0U) |
	       (request->priority != 0 ? LOCK_CAN_PRIORITY : 0U) |
	       (request->once || request->cooldown_ms > 0 ? LOCK_CAN_RECORD : 0U) |
	       (request->at_least_ms > 0 ? LOCK_CAN_KEEP : 0U) |
	       (request->detached ? LOCK_CAN_DETACH : 0U) |
	       (request->replicas > 0 ? LOCK_CAN_REPLICATE : 0U) |
	       (request->settle_named && request->settle_ms > 0 ? LOCK_CAN_SETTLE : 0U);
}

/* The users' name for an ability. */
static const char *name_ability(const struct lock_request *request, unsigned ability)
{
	static const struct {
		unsigned ability;
		const char *name;
	} names[] = {{LOCK_CAN_SHARE, "--shared"}, {LOCK_CAN_PERMITS, "--permits"},
		{LOCK_CAN_PRIORITY, "--priority"}, {LOCK_CAN_RECORD, "--once"},
		{LOCK_CAN_KEEP, "--at-least"}, {LOCK_CAN_DETACH, "a lock by token"},
		{LOCK_CAN_JOIN, "--also"}, {LOCK_CAN_REPLICATE, "--wait-replicas"},
		{LOCK_CAN_SETTLE, "--settle"}, {0, "--force"}};
	size_t i = 0;

	if (ability == LOCK_CAN_RECORD && !request->once)
		return request->cooldown_ms > 0 ? "--cooldown" : "--succeeded-within";
	while (names[i].ability != 0 && names[i].ability != ability)
		i++;
	return names[i].name;
}

static bool refuse(const struct lock_service *service, const struct lock_request *request,
	unsigned ability, struct failure *failure)
{
	const char *what = name_ability(request, ability);

	for (const struct lock_lack *lack = service->lacks; lack && lack->ability; lack++)
		if (lack->ability & ability)
			return failure_set(failure, EXIT_USAGE, "%s cannot be had from %s (%s)",
				what, service->name, lack->why);
	return failure_set(failure, EXIT_USAGE, "%s cannot be had from %s", what, service->name);
}

bool lock_service_can(const struct server *server, const struct lock_request *request,
	unsigned abilities, struct failure *failure)
{
	unsigned missing = (abilities | needed(request)) & ~server->service->can;

	/* The first of them is said. */
	return missing == 0 || refuse(server->service, request, missing & -missing, failure);
}

bool lock_is_by_token(const struct lock_request *request)
{
	return request->detached && request->token;
}

int64_t lock_ttl_ms(const struct lock_request *request, nanos granted_at)
{
	int64_t left = request->at_least_ms;

	if (granted_at == 0 && !request->detached)
		return request->ttl_ms;
	if (granted_at == 0)
		granted_at = clock_now();
	left -= (clock_now() - granted_at) / NANOS_PER_MS;
	return left > request->ttl_ms ? left : request->ttl_ms;
}

void *lock_new(size_t size, const struct lock_service *service, const struct lock_request *request,
	struct failure *failure)
{
	struct lock *lock = calloc(1, size);

	if (!lock) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	lock->service = service;
	lock->token = request->token_page ? request->token_page : lock->token_own;
	return lock;
}

bool lock_fail_format(struct failure *failure, const char *server, int64_t format)
{
	return failure_set(
		failure, EXIT_CONFIG, "%s " LOCK_NEWER " (dlock format %d)", server, (int)format);
}

int64_t lock_window_ms(struct lock *lock, const struct lock_request *request)
{
	nanos now = clock_now();

	if (lock->asked_first == 0)
		lock->asked_first = now;
	return request->cooldown_ms == 0
		       ? 0
		       : request->cooldown_ms + (now - lock->asked_first) / NANOS_PER_MS;
}

struct lock *lock_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct lock *lock;

	if (!services_serve(server, failure) || !lock_service_can(server, request, 0, failure))
		return NULL;
	lock = server->service->open(server, request, failure);
	if (lock)
		lock->is_by_token = lock_is_by_token(request);
	if (lock && (server->service->can & LOCK_CAN_SHOW))
		lock->circles = (struct lock_circles){.server = server,
			.prefix = request->prefix,
			.name = request->name,
			.held = request->held};
	return lock;
}

void lock_close(struct lock *lock)
{
	lock->service->close(lock);
}

static void note_grant(struct lock *lock, const struct lock_answer *granted)
{
	lock->fence = granted ? granted->fence : 0;
	lock->granted_at = granted ? granted->granted_at : 0;
}

void lock_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	lock->service->take(lock, deadline, answer);
	if (answer->result == LOCK_GRANTED)
		note_grant(lock, answer);
}

bool lock_may_be_asked(const struct lock *lock)
{
	return lock->asked;
}

void lock_take_over(struct lock *lock, const struct lock_answer *granted)
{
	lock->asked = true;
	lock->orphaned = true;
	note_grant(lock, granted);
	if (lock->service->take_over)
		lock->service->take_over(lock, granted);
}

bool lock_is_heir(const struct lock *lock)
{
	return lock->orphaned && lock->fence != 0;
}

void lock_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	lock->service->renew(lock, deadline, answer);
}

/* A service may give up when its server is not there at once. */
static bool may_release_again(
	const struct lock *lock, const struct lock_answer *answer, struct deadline deadline)
{
	nanos pause = (RETRY_LEAST + clock_jitter(RETRY_MORE)) * NANOS_PER_MS;

	return answer->result == LOCK_FAILED && answer->failure.code == EXIT_UNREACHABLE &&
	       !lock->is_by_token && deadline_pause(deadline, pause) &&
	       clock_now() < deadline.until;
}

void lock_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	lock->circles.due = 0;
	do {
		memset(answer, 0, sizeof(*answer));
		lock->service->release(lock, release_terms, deadline, answer);
	} while (may_release_again(lock, answer, deadline));
	if (answer->result == LOCK_RELEASED || answer->result == LOCK_GONE ||
		answer->result == LOCK_LOST) {
		lock->orphaned = false;
		note_grant(lock, NULL);
	}
}

void lock_force(struct lock *lock, lock_holder_taker *tell, void *context, struct deadline deadline,
	struct lock_answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	if (lock->service->can & LOCK_CAN_FORCE) {
		lock->service->force(lock, tell, context, deadline, answer);
		return;
	}
	answer->result = LOCK_FAILED;
	refuse(lock->service, NULL, LOCK_CAN_FORCE, &answer->failure);
}

bool lock_verify(struct lock *lock, nanos limit)
{
	return lock->service->verify && lock->service->verify(lock, limit);
}

int lock_watch_fd(const struct lock *lock)
{
	return lock->service->watch_fd ? lock->service->watch_fd(lock) : -1;
}

const char *lock_token(const struct lock *lock)
{
	return lock->token;
}
