#include "redis/quorum/quorum.h"

#include <bsd/string.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/number.h"
#include "redis/link/connection.h"
#include "redis/redis_service.h"
#include "redis/redis_url.h"

static void write_token(const struct quorum *quorum, unsigned attempt, char *token)
{
	char *at = stpcpy(stpcpy(token, quorum->request.self->host), ":");

	at = stpcpy(number_write(at, quorum->request.self->pid), ":");
	number_write_hex(number_write_hex(at, quorum->random[0]), quorum->random[1] + attempt);
}

bool quorum_sync(struct quorum *quorum, struct failure *failure)
{
	const struct lock_request *request = &quorum->request;
	unsigned attempt = atomic_load(&quorum->shared->attempt);

	if (quorum->keyed == attempt && quorum->keys.memory)
		return true;
	quorum->keyed = attempt;
	if (request->token)
		strlcpy(quorum->lock.token, request->token, LOCK_TOKEN_SIZE);
	else
		write_token(quorum, attempt, quorum->lock.token);
	keys_free(&quorum->keys);
	return keys_make(&quorum->keys, request->prefix, request->name, quorum->lock.token) ||
	       failure_set(failure, EXIT_SYSTEM, "out of memory");
}

void quorum_connect_all(struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++)
		peer_connect(&quorum->peers[i]);
}

void quorum_drop_all(struct quorum *quorum)
{
	for (size_t i = 0; i < quorum->count; i++)
		peer_drop(&quorum->peers[i]);
}

static void quorum_close(struct lock *lock)
{
	struct quorum *quorum = (struct quorum *)lock;

	for (size_t i = 0; quorum->peers && i < quorum->count; i++)
		link_close(&quorum->peers[i].link);
	if (quorum->watch >= 0)
		close(quorum->watch);
	if (quorum->mend >= 0)
		close(quorum->mend);
	if (quorum->shared)
		munmap(quorum->shared, sizeof(*quorum->shared));
	keys_free(&quorum->keys);
	keys_free(&quorum->waiter_keys);
	free(quorum->peers);
	free(quorum->votes);
	free(quorum);
}

static bool prepare(struct quorum *quorum, const struct server *server, struct failure *failure)
{
	const struct lock_request *request = &quorum->request;

	quorum->count = server->endpoint_count;
	quorum->majority = quorum->count / 2 + 1;
	quorum->peers = calloc(quorum->count, sizeof(*quorum->peers));
	quorum->votes = calloc(quorum->count, sizeof(*quorum->votes));
	quorum->shared = mmap(NULL, sizeof(*quorum->shared), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (quorum->shared == MAP_FAILED)
		quorum->shared = NULL;
	if (!quorum->peers || !quorum->votes || !quorum->shared)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	for (size_t i = 0; i < quorum->count; i++)
		peer_open(&quorum->peers[i], server, i);
	/* Not libbsd's arc4random: it costs two mappings and a handler of fork(2). */
	while (getrandom(quorum->random, sizeof(quorum->random), 0) < 0 && errno == EINTR)
		continue;
	write_token(quorum, 0, quorum->waiter);
	atomic_store(&quorum->shared->attempt, 1);
	if (!keys_make(&quorum->waiter_keys, request->prefix, request->name, quorum->waiter))
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	return quorum_sync(quorum, failure);
}

static struct lock *quorum_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct quorum *quorum = lock_new(sizeof(*quorum), &quorum_service, request, failure);

	if (!quorum)
		return NULL;
	quorum->request = *request;
	quorum->server = server->text;
	quorum->watch = quorum->mend = -1;
	quorum->asked = request->token != NULL; /* an owner with a token was here before */
	owner_record_mode(request, quorum->mode);
	owner_record_text(request, quorum->text);
	keys_once(request->once, quorum->once);
	if (prepare(quorum, server, failure))
		return &quorum->lock;
	quorum_close(&quorum->lock);
	return NULL;
}

static int quorum_watch_fd(const struct lock *lock)
{
	return ((const struct quorum *)lock)->watch;
}

/* A majority of servers is none of shares, and there is no order of waiting. */
static const struct lock_lack lacks[] = {
	{LOCK_CAN_SHARE | LOCK_CAN_PERMITS, "its lock is exclusive; one server has that"},
	{LOCK_CAN_PRIORITY | LOCK_CAN_JOIN, "it has no order of waiting; one server has"},
	{LOCK_CAN_REPLICATE, "its servers have no replicas to wait for; one server may have"},
	{0},
};

const struct lock_service quorum_service = {
	.name = "a quorum",
	.schemes = redis_quorum_schemes,
	.can = LOCK_CAN_RECORD | LOCK_CAN_KEEP | LOCK_CAN_DETACH | LOCK_CAN_SETTLE | LOCK_CAN_FORCE,
	.lacks = lacks,
	.password_variable = "REDISCLI_AUTH",
	.read_url = redis_read_url,
	.open = quorum_open,
	.close = quorum_close,
	.take = quorum_take,
	.take_over = quorum_take_over,
	.renew = quorum_renew,
	.release = quorum_release,
	.wait = quorum_wait,
	.watch_fd = quorum_watch_fd,
	.force = quorum_force,
	.check = redis_check,
	.list = quorum_list,
};
