#include "redis/quorum/quorum_service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "redis/quorum/quorum.h"
#include "redis/quorum/quorum_attempt.h"
#include "redis/quorum/quorum_grant.h"
#include "redis/quorum/quorum_list.h"
#include "redis/quorum/quorum_release.h"
#include "redis/quorum/quorum_renew.h"
#include "redis/quorum/quorum_wait.h"
#include "redis/script/script.h"

static void quorum_close(struct lock *lock)
{
	struct quorum *quorum = (struct quorum *)lock;

	for (size_t i = 0; quorum->peers && i < quorum->count; i++)
		peer_close(&quorum->peers[i]);
	if (quorum->watch >= 0)
		close(quorum->watch);
	if (quorum->mend >= 0)
		close(quorum->mend);
	if (quorum->attempt)
		munmap(quorum->attempt, sizeof(*quorum->attempt));
	keys_free(&quorum->keys);
	keys_free(&quorum->waiter_keys);
	free(quorum->peers);
	free(quorum->votes);
	free(quorum);
}

/* A majority of servers is none of shares, and there is no order of waiting. */
static bool is_possible(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	if (request->mode != LOCK_EXCLUSIVE)
		return failure_set(failure, EXIT_USAGE,
			"%s needs one server: on a quorum a lock is exclusive",
			request->mode == LOCK_SHARED ? "--shared" : "--permits");
	if (request->replicas > 0)
		return failure_set(failure, EXIT_USAGE,
			"--wait-replicas needs one server: a quorum's have no replicas to wait "
			"for");
	if (request->priority != 0)
		return failure_set(failure, EXIT_USAGE,
			"--priority needs one server: a quorum has no order of waiting");
	return server->endpoint_count <= PEERS_MOST || quorum_refuse_many(server, failure);
}

static bool prepare(struct quorum *quorum, const struct server *server, struct failure *failure)
{
	const struct lock_request *request = &quorum->request;

	quorum->count = server->endpoint_count;
	quorum->majority = quorum->count / 2 + 1;
	quorum->peers = calloc(quorum->count, sizeof(*quorum->peers));
	quorum->votes = calloc(quorum->count, sizeof(*quorum->votes));
	quorum->attempt = mmap(NULL, sizeof(*quorum->attempt), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (quorum->attempt == MAP_FAILED)
		quorum->attempt = NULL;
	if (!quorum->peers || !quorum->votes || !quorum->attempt)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	for (size_t i = 0; i < quorum->count; i++)
		peer_open(&quorum->peers[i], server, i);
	/* Not libbsd's arc4random: it costs two mappings and a handler of fork(2). */
	while (getrandom(quorum->random, sizeof(quorum->random), 0) < 0 && errno == EINTR)
		continue;
	quorum_write_token(quorum, 0, quorum->waiter);
	atomic_store(quorum->attempt, 1);
	if (!keys_make(&quorum->waiter_keys, request->prefix, request->name, quorum->waiter))
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	return quorum_sync(quorum, failure);
}

static struct lock *quorum_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct quorum *quorum;

	if (!is_possible(server, request, failure))
		return NULL;
	quorum = calloc(1, sizeof(*quorum));
	if (!quorum) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	quorum->lock.service = &quorum_service;
	quorum->request = *request;
	quorum->server = server->text;
	quorum->watch = quorum->mend = -1;
	quorum->asked = request->token != NULL; /* whoever has a token has been here before */
	owner_record_mode(request, quorum->mode);
	owner_record_text(request, quorum->text);
	keys_once(request->once, quorum->once);
	if (prepare(quorum, server, failure))
		return &quorum->lock;
	quorum_close(&quorum->lock);
	return NULL;
}

static enum lock_result quorum_verify(
	struct lock *lock, struct lock_answer *answer, struct deadline deadline)
{
	(void)lock;
	(void)deadline;
	answer->handed_count = 0; /* nobody is ever handed the lock: he is woken, and tries */
	return LOCK_RELEASED;
}

static int quorum_watch_fd(const struct lock *lock)
{
	return ((const struct quorum *)lock)->watch;
}

static const char *quorum_token(const struct lock *lock)
{
	return ((const struct quorum *)lock)->token;
}

const struct lock_service quorum_service = {
	.open = quorum_open,
	.close = quorum_close,
	.ask = quorum_ask,
	.answer = quorum_answer,
	.adopt_answer = quorum_adopt_answer,
	.wait = quorum_wait,
	.renew = quorum_renew,
	.release = quorum_release,
	.release_finish = quorum_release,
	.force = quorum_force,
	.verify = quorum_verify,
	.reset = quorum_reset,
	.watch_fd = quorum_watch_fd,
	.token = quorum_token,
	.list = quorum_list,
};

void quorum_reset(struct lock *lock)
{
	struct quorum *quorum = (struct quorum *)lock;
	struct failure unheard;

	quorum_sync(quorum, &unheard);
	for (size_t i = 0; i < quorum->count; i++)
		peer_forget(&quorum->peers[i]);
}
