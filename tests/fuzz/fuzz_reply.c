/*
 * A server that answers anything. The first byte says what is asked of it, the rest is what it
 * says, cut at each 0xff into one connection after the other; then it closes, and no other comes.
 *
 * So that a run is quick and is the same each time, the linker puts three functions of ours in the
 * place of dlock's (--wrap): dial() gives a socket that holds the answer, and time passes only
 * where somebody waits.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "lock.h"
#include "redis/dial.h"
#include "server.h"

#define SPAN   (60 * NANOS_PER_SEC)
#define ROUNDS 8
#define DIALS  64

static struct {
	const uint8_t *at, *end;
	nanos now;
	int far_ends[DIALS]; /* what is sent to the server stays unread in there */
	int dials;
} world;

nanos __wrap_clock_now(void);
enum patience_end __wrap_patience_wait(struct patience patience, int fd, short events);
enum wire __wrap_dial(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, struct patience patience, struct failure *failure);

nanos __wrap_clock_now(void)
{
	return world.now;
}

enum patience_end __wrap_patience_wait(struct patience patience, int fd, short events)
{
	struct pollfd one = {.fd = fd, .events = events};

	world.now += NANOS_PER_US;
	if (fd >= 0 && poll(&one, 1, 0) > 0)
		return PATIENCE_READY;
	MUST(patience.until != NANOS_NEVER);
	if (world.now < patience.until)
		world.now = patience.until;
	return PATIENCE_OVER;
}

enum wire __wrap_dial(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, struct patience patience, struct failure *failure)
{
	const uint8_t *stop;
	int ends[2];

	(void)endpoint;
	(void)lookup;
	(void)patience;
	if (world.at == world.end || world.dials == DIALS) {
		failure_set(failure, EXIT_UNREACHABLE, "%s is gone", peer);
		return WIRE_CLOSED;
	}
	stop = memchr(world.at, 0xff, (size_t)(world.end - world.at));
	if (stop == NULL)
		stop = world.end;
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
	MUST(write(ends[1], world.at, (size_t)(stop - world.at)) == stop - world.at);
	shutdown(ends[1], SHUT_WR);
	world.far_ends[world.dials++] = ends[1];
	world.at = stop == world.end ? stop : stop + 1;
	*fd = ends[0];
	return WIRE_OK;
}

static struct patience patience(void)
{
	return (struct patience){world.now + SPAN, -1};
}

/* --- What is asked -------------------------------------------------------------------------- */

static void check_failure(enum lock_result result, const struct failure *failure)
{
	MUST(result != LOCK_FAILED || (failure->code != EXIT_DONE && failure->text[0] != '\0'));
}

static void check_answer(const struct lock_answer *answer)
{
	check_failure(answer->result, &answer->failure);
	MUST(answer->handed_count >= 0 && answer->handed_count <= LOCK_HANDED_MOST);
	for (int i = 0; i < answer->handed_count; i++)
		MUST(memchr(answer->handed[i], '\0', LOCK_TOKEN_SIZE) != NULL);
	if (answer->result == LOCK_BUSY)
		MUST(memchr(answer->holder_token, '\0', LOCK_TOKEN_SIZE) != NULL);
}

static void settle(struct lock *lock, struct lock_answer *answer)
{
	for (int round = 0; round < ROUNDS && answer->handed_count > 0; round++)
		if (lock_verify(lock, answer, patience()) != LOCK_RELEASED)
			break;
	check_answer(answer);
}

/* True: it was granted. */
static bool acquire(struct lock *lock, struct lock_answer *answer)
{
	struct failure failure = {0};

	for (int round = 0; round < ROUNDS; round++) {
		enum lock_result result = lock_ask(lock, patience(), &failure);

		check_failure(result, &failure);
		if (result != LOCK_GRANTED)
			return false;
		lock_answer(lock, patience(), answer);
		check_answer(answer);
		if (answer->result != LOCK_BUSY)
			return answer->result == LOCK_GRANTED;
		result = lock_listen(lock, patience(), &failure);
		check_failure(result, &failure);
		if (result != LOCK_GRANTED)
			return false;
	}
	return false;
}

enum way {
	NOT_QUEUED = 1,
	HELD = 2,
	SHARED = 4,
	GREETS = 8,
	WATCHED = 16,
	PARTS = 32,
	SURVEY = 128
};

static void use_lock(const struct server *server, unsigned ways)
{
	static struct lock_answer answer;
	struct lock_request request = {
		.name = "x",
		.prefix = "lock:",
		.mode = ways & SHARED ? LOCK_SHARED : LOCK_EXCLUSIVE,
		.ttl_ms = 10000,
		.cooldown_ms = ways & SHARED ? 5000 : 0,
		.once_for_ms = 1000,
		.queues = (ways & NOT_QUEUED) == 0,
		.watched = (ways & WATCHED) != 0,
		.held = ways & HELD ? "host:1:00 a\nhost:2:00 b" : NULL,
		.self = {.host = "here", .pid = 7, .label = "fuzz"},
	};
	const struct lock_parting parting = {.success = true};
	struct failure failure = {0};
	struct lock *lock = lock_open(server, &request, &failure);

	MUST(lock != NULL);
	if (acquire(lock, &answer)) {
		settle(lock, &answer);
		for (int round = 0; round < 3; round++) {
			lock_renew(lock, patience(), &answer);
			check_answer(&answer);
		}
	}
	if (ways & PARTS && lock_part(lock, &parting, patience()))
		lock_hear(lock, &parting, patience(), &answer);
	else
		lock_release(lock, &parting, patience(), &answer);
	check_answer(&answer);
	settle(lock, &answer);
	lock_close(lock);
}

static void show(const struct lock_view *view, void *context)
{
	MUST(view->name != NULL && view->key != NULL && view->fence <= UINT64_MAX);
	for (size_t i = 0; i < view->holder_count; i++)
		*(size_t *)context += strlen(view->holders[i].party.label);
	for (size_t i = 0; i < view->waiter_count; i++)
		*(size_t *)context += strlen(view->waiters[i].party.host);
}

static void look(const struct server *server, unsigned ways)
{
	static char name[] = "x", glob[] = "a*";
	static char *const names[] = {name, glob};
	struct failure failure = {0};
	size_t sum = 0;

	if (!lock_survey(server, "lock:", names, ways % 3, ways & WATCHED, show, &sum, patience(),
		    &failure))
		check_failure(LOCK_FAILED, &failure);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned ways = size > 0 ? data[0] : 0;
	struct failure failure;
	struct server *server = server_parse(
		ways & GREETS ? "unix://user:word@/none?db=2" : "unix:///none", &failure);

	MUST(server != NULL);
	if (size > 0 && size < 16384) {
		world.at = data + 1;
		world.end = data + size;
		world.now = 1000 * NANOS_PER_SEC;
		world.dials = 0;
		if (ways & SURVEY)
			look(server, ways);
		else
			use_lock(server, ways);
		while (world.dials > 0)
			close(world.far_ends[--world.dials]);
	}
	server_free(server);
	return 0;
}
