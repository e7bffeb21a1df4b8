#include "redis/single/single.h"

#include <stdlib.h>

#include "lock/token.h"
#include "redis/link/connection.h"
#include "redis/redis_service.h"
#include "redis/redis_url.h"

enum lock_result single_result(enum io_result io, struct deadline deadline)
{
	if (io == IO_OK)
		return LOCK_GRANTED;
	if (io == IO_CANCELLED)
		return LOCK_CANCELLED;
	return io == IO_TIMEOUT && clock_now() >= deadline.until ? LOCK_TIMEOUT : LOCK_FAILED;
}

void single_borrow(struct single *single)
{
	struct lock *other = single->lock.beside;

	for (; other && other != &single->lock && !single->link.connection; other = other->beside)
		link_lend(&single->link, &((struct single *)other)->link);
}

bool single_name_keys(struct single *single, struct failure *failure)
{
	keys_free(&single->keys);
	if (!keys_make(&single->keys, single->request.prefix, single->request.name,
		    single->lock.token))
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	single->link.key = single->keys.lock;
	single->spent = false;
	return true;
}

static void single_close(struct lock *lock)
{
	struct single *single = (struct single *)lock;

	link_close(&single->link);
	keys_free(&single->keys);
	free(single);
}

static struct lock *single_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct single *single = lock_new(sizeof(*single), &redis_service, request, failure);

	if (!single)
		return NULL;
	single->request = *request;
	single->link.server = server;
	single->lock.asked = request->token != NULL; /* an owner with a token was here before */
	owner_record_mode(request, single->mode);
	owner_record_text(request, single->text);
	keys_once(request->once, single->once);
	token_begin(request, single->lock.token);
	if (single_name_keys(single, failure))
		return &single->lock;
	single_close(&single->lock);
	return NULL;
}

static int single_watch_fd(const struct lock *lock)
{
	const struct single *single = (const struct single *)lock;
	const struct link *link = &single->link;

	return link->connection && !link->waiting ? connection_fd(link->connection) : -1;
}

const struct lock_service redis_service = {
	.name = "Redis",
	.schemes = redis_schemes,
	.can = LOCK_CAN_SHARE | LOCK_CAN_PERMITS | LOCK_CAN_PRIORITY | LOCK_CAN_RECORD |
	       LOCK_CAN_KEEP | LOCK_CAN_DETACH | LOCK_CAN_JOIN | LOCK_CAN_REPLICATE |
	       LOCK_CAN_SETTLE | LOCK_CAN_FORCE | LOCK_CAN_SHOW,
	.password_variable = "REDISCLI_AUTH",
	.read_url = redis_read_url,
	.open = single_open,
	.close = single_close,
	.take = single_take,
	.take_over = single_take_over,
	.renew = single_renew,
	.release = single_release,
	.wait = single_wait,
	.watch_fd = single_watch_fd,
	.force = single_force,
	.check = redis_check,
	.list = single_list,
	.verify = single_verify,
};
