#include "lock/lock.h"

#include <stddef.h>

#include "lock/service.h"
#include "lock/services.h"

struct lock *lock_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	const struct lock_service *service = services_find(server, failure);

	return service ? service->open(server, request, failure) : NULL;
}

void lock_close(struct lock *lock)
{
	lock->service->close(lock);
}

enum lock_result lock_ask(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	return lock->service->ask(lock, deadline, failure);
}

void lock_answer(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	lock->service->answer(lock, deadline, answer);
}

void lock_adopt_answer(struct lock *lock, const struct lock_answer *answer)
{
	lock->service->adopt_answer(lock, answer);
}

bool lock_is_busy(const struct lock *lock)
{
	return lock->service->is_busy && lock->service->is_busy(lock);
}

enum lock_result lock_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	return lock->service->wait(lock, deadline, failure);
}

void lock_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	lock->service->renew(lock, deadline, answer);
}

void lock_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	lock->service->release(lock, release_terms, deadline, answer);
}

bool lock_release_send(
	struct lock *lock, const struct release_terms *release_terms, struct deadline deadline)
{
	return lock->service->release_send &&
	       lock->service->release_send(lock, release_terms, deadline);
}

void lock_release_finish(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	lock->service->release_finish(lock, release_terms, deadline, answer);
}

void lock_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct deadline deadline, struct lock_answer *answer)
{
	if (lock->service->force) {
		lock->service->force(lock, tell, context, deadline, answer);
		return;
	}
	answer->result = LOCK_FAILED;
	answer->handed_count = 0;
	failure_set(&answer->failure, EXIT_USAGE, "this lock service knows no way to break a lock");
}

enum lock_result lock_verify(
	struct lock *lock, struct lock_answer *answer, struct deadline deadline)
{
	return lock->service->verify(lock, answer, deadline);
}

void lock_reset(struct lock *lock)
{
	lock->service->reset(lock);
}

int lock_watch_fd(const struct lock *lock)
{
	return lock->service->watch_fd(lock);
}

const char *lock_token(const struct lock *lock)
{
	return lock->service->token(lock);
}

bool lock_needs_guardian(struct lock *lock)
{
	return lock->service->needs_guardian && lock->service->needs_guardian(lock);
}

void lock_assume_asked(struct lock *lock)
{
	lock->service->assume_asked(lock);
}

bool lock_take_token(struct lock *lock, const char *token, struct failure *failure)
{
	return lock->service->take_token(lock, token, failure);
}

const char *lock_fences(struct lock *lock)
{
	return lock->service->fences ? lock->service->fences(lock) : NULL;
}
