#include "redis/quorum/quorum.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/wakeup.h"
#include "lock/token.h"
#include "redis/link/connection.h"
#include "redis/redis_service.h"

void quorum_order(struct quorum *quorum, enum task task, voter_test is)
{
	quorum->began = clock_now();
	for (size_t i = 0; i < quorum->count; i++)
		if (!is || is(&quorum->voters[i]))
			voter_order(&quorum->voters[i], task);
}

static enum deadline_end await_news(struct quorum *quorum, struct deadline *deadline)
{
	enum deadline_end end;

	pthread_mutex_unlock(&quorum->mutex);
	end = deadline_wait(deadline, quorum->news_fd, POLLIN);
	wakeup_clear(quorum->news_fd);
	pthread_mutex_lock(&quorum->mutex);
	return end;
}

/* Replies that the last wait has brought count though time is up. A limit that is noticed late
 * (deadline.h) is put off once. */
enum deadline_end quorum_await(struct quorum *quorum, bool (*is_over)(const struct quorum *quorum),
	struct deadline (*limit)(const struct quorum *quorum, struct deadline deadline),
	struct deadline deadline)
{
	enum deadline_end end = DEADLINE_READY;
	bool late = false;

	while (!is_over(quorum) && end == DEADLINE_READY) {
		struct deadline next = limit && !late ? limit(quorum, deadline) : deadline;
		nanos until = next.until;

		end = await_news(quorum, &next);
		late |= next.until != until;
		if (late)
			deadline = next;
	}
	return is_over(quorum) ? DEADLINE_READY : end;
}

void quorum_await_while(struct quorum *quorum, voter_test is, struct deadline deadline)
{
	while (quorum_count_if(quorum, is) > 0 && await_news(quorum, &deadline) == DEADLINE_READY)
		continue;
}

struct deadline quorum_share(const struct quorum *quorum, nanos span)
{
	nanos now = clock_now();

	return deadline_alone(now + QUORUM_SHARE_TIMES * (now - quorum->began) + span);
}

bool quorum_report_end(enum deadline_end end, struct lock_answer *answer)
{
	static const enum lock_result results[] = {
		[DEADLINE_READY] = LOCK_FAILED,
		[DEADLINE_OVER] = LOCK_TIMEOUT,
		[DEADLINE_CANCELLED] = LOCK_CANCELLED,
	};

	answer->result = results[end];
	return end != DEADLINE_READY;
}

static void quorum_close(struct lock *lock)
{
	struct quorum *quorum = (struct quorum *)lock;

	for (size_t i = 0; i < quorum->count; i++)
		voter_close(&quorum->voters[i]);
	if (quorum->news_fd >= 0)
		close(quorum->news_fd);
	if (quorum->watch_fd >= 0)
		close(quorum->watch_fd);
	pthread_mutex_destroy(&quorum->mutex);
	keys_free(&quorum->waiter_keys);
	free(quorum->voters);
	free(quorum);
}

static bool prepare(struct quorum *quorum, const struct server *server, struct failure *failure)
{
	const struct lock_request *request = &quorum->request;

	quorum->voters = calloc(server->endpoint_count, sizeof(*quorum->voters));
	if (!quorum->voters)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	quorum->errand.self = *request->self;
	token_make(request->self, quorum->waiter);
	token_begin(request, quorum->lock.token);
	if (!keys_make(&quorum->waiter_keys, request->prefix, request->name, quorum->waiter))
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	quorum->majority = server->endpoint_count / 2 + 1;
	for (; quorum->count < server->endpoint_count; quorum->count++)
		if (!voter_open(
			    &quorum->voters[quorum->count], quorum, server, quorum->count, failure))
			return false;
	return true;
}

static struct lock *quorum_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct quorum *quorum = lock_new(sizeof(*quorum), &quorum_service, request, failure);

	if (!quorum)
		return NULL;
	quorum->request = *request;
	quorum->news_fd = quorum->watch_fd = -1;
	pthread_mutex_init(&quorum->mutex, NULL);
	quorum->asked = request->token != NULL; /* an owner with a token was here before */
	if (prepare(quorum, server, failure))
		return &quorum->lock;
	quorum_close(&quorum->lock);
	return NULL;
}

static int quorum_watch_fd(const struct lock *lock)
{
	return ((const struct quorum *)lock)->watch_fd;
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
