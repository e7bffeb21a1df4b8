#include "redis/single/single.h"

#include <bsd/string.h>

#include "lock/token.h"

enum lock_result single_result(enum io_result io, struct deadline deadline)
{
	if (io == IO_OK)
		return LOCK_GRANTED;
	if (io == IO_CANCELLED)
		return LOCK_CANCELLED;
	return io == IO_TIMEOUT && clock_now() >= deadline.until ? LOCK_TIMEOUT : LOCK_FAILED;
}

bool single_pause(struct deadline deadline, enum lock_result *result)
{
	bool cancelled;
	bool goes_on = link_pause(deadline, &cancelled);

	if (cancelled)
		*result = LOCK_CANCELLED;
	return goes_on;
}

void single_borrow(struct single *single)
{
	struct lock *other = single->lock.beside;

	for (; other && other != &single->lock && !single->link.connection; other = other->beside)
		link_lend(&single->link, &((struct single *)other)->link);
}

bool single_set_token(struct single *single, const char *token, struct failure *failure)
{
	strlcpy(single->lock.token, token, LOCK_TOKEN_SIZE);
	keys_free(&single->keys);
	if (!keys_make(&single->keys, single->request.prefix, single->request.name,
		    single->lock.token))
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	single->link.key = single->keys.lock;
	single->spent = false;
	return true;
}

bool single_new_token(struct single *single, struct failure *failure)
{
	char token[LOCK_TOKEN_SIZE];

	token_make(single->request.self, token);
	return single_set_token(single, token, failure);
}

int64_t single_settle(const struct lock_request *request)
{
	return request->settle_asked ? request->settle_ms : -request->settle_ms;
}
