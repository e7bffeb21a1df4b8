#include "redis/redis_service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/server.h"
#include "redis/check/server_check.h"
#include "redis/link/connection.h"
#include "redis/single/force.h"
#include "redis/single/list.h"
#include "redis/single/release.h"
#include "redis/single/renew.h"
#include "redis/single/single.h"
#include "redis/single/take.h"
#include "redis/single/wait.h"

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
	struct single *single = calloc(1, sizeof(*single));
	bool done;

	if (!single) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	single->lock.service = &redis_service;
	single->request = *request;
	single->link.server = server;
	link_begin(&single->link);
	single->asked = request->token != NULL; /* whoever has a token has been here before */
	owner_record_mode(request, single->mode);
	owner_record_text(request, single->text);
	keys_once(request->once, single->once);
	done = request->token ? single_set_token(single, request->token, failure)
			      : single_new_token(single, failure);
	if (done)
		return &single->lock;
	single_close(&single->lock);
	return NULL;
}

static void single_reset(struct lock *lock)
{
	struct single *single = (struct single *)lock;

	link_drop(&single->link);
	wait_stop(single);
}

static int single_watch_fd(const struct lock *lock)
{
	const struct single *single = (const struct single *)lock;
	const struct link *link = &single->link;

	return link->connection && !link->waiting ? connection_fd(link->connection) : -1;
}

static const char *single_token(const struct lock *lock)
{
	return ((const struct single *)lock)->token;
}

static void single_assume_asked(struct lock *lock)
{
	((struct single *)lock)->asked = true;
}

static bool single_take_token(struct lock *lock, const char *token, struct failure *failure)
{
	struct single *single = (struct single *)lock;

	return token ? single_set_token(single, token, failure) : single_new_token(single, failure);
}

const struct lock_service redis_service = {
	.open = single_open,
	.close = single_close,
	.ask = single_ask,
	.is_busy = single_is_busy,
	.answer = single_answer,
	.adopt_answer = single_adopt_answer,
	.wait = single_wait,
	.renew = single_renew,
	.release = single_release,
	.release_send = single_release_send,
	.release_finish = single_release_finish,
	.force = single_force,
	.verify = single_verify,
	.reset = single_reset,
	.watch_fd = single_watch_fd,
	.token = single_token,
	.assume_asked = single_assume_asked,
	.take_token = single_take_token,
	.list = single_list,
	.list_open = single_list_open,
	.list_again = single_list_again,
	.list_close = single_list_close,
	.check = server_check,
};
