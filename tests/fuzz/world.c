#include "world.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "failure.h"
#include "fuzz.h"
#include "redis/dial.h"
#include "server.h"

#define BEGIN      (1000 * NANOS_PER_SEC)
#define SPAN       (60 * NANOS_PER_SEC)
#define DIALS      96
#define ADDRESSES  2      /* of each host */
#define LOOKS_MOST 200000 /* at sockets, in one run */

static struct {
	bool runs; /* outside of a run libFuzzer has threads and a clock as well */
	const uint8_t *at, *end;
	nanos now;
	int far_ends[DIALS]; /* what is sent to the server stays unread in there */
	int dials;
	long looks;
} world;

struct patience world_patience(void)
{
	return (struct patience){world.now + SPAN, -1};
}

void world_begin(const uint8_t *data, size_t size)
{
	world.runs = true;
	world.at = data;
	world.end = data + size;
	world.now = BEGIN;
	world.dials = 0;
	world.looks = 0;
}

void world_end(void)
{
	world.runs = false;
	while (world.dials > 0)
		close(world.far_ends[--world.dials]);
}

/* --- Time and chance ------------------------------------------------------------------------ */

nanos __wrap_clock_now(void);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_poll_ms(nanos until);
uint32_t __wrap_arc4random_uniform(uint32_t below);
int __real_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t size);
enum patience_end __wrap_patience_wait(struct patience patience, int fd, short events);

nanos __wrap_clock_now(void)
{
	return world.now;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!world.runs)
		return __real_clock_gettime(clock, now);
	*now = (struct timespec){.tv_sec = 1795232512};
	return 0;
}

int __wrap_clock_poll_ms(nanos until)
{
	if (until == NANOS_NEVER)
		return -1;
	return until <= world.now ? 0 : (int)((until - world.now - 1) / NANOS_PER_MS + 1);
}

uint32_t __wrap_arc4random_uniform(uint32_t below)
{
	return below / 2;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms)
{
	int ready = __real_poll(fds, count, 0);

	MUST(++world.looks < LOOKS_MOST);
	world.now += NANOS_PER_US;
	MUST(ready > 0 || ms >= 0);
	if (ready == 0)
		world.now += ms * NANOS_PER_MS;
	return ready;
}

/* What poll is with _FORTIFY_SOURCE. */
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t size)
{
	MUST(count * sizeof(*fds) <= size);
	return __wrap_poll(fds, count, ms);
}

enum patience_end __wrap_patience_wait(struct patience patience, int fd, short events)
{
	struct pollfd one = {.fd = fd, .events = events};

	MUST(patience.until != NANOS_NEVER);
	if (__wrap_poll(&one, 1, 0) > 0)
		return PATIENCE_READY;
	if (world.now < patience.until)
		world.now = patience.until;
	return PATIENCE_OVER;
}

/* --- Connections ---------------------------------------------------------------------------- */

enum wire __wrap_dial(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, struct patience patience, struct failure *failure);
enum wire __wrap_dial_begin(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, size_t which, size_t *count, struct failure *failure);

static enum wire connect_next(int *fd, const char *peer, struct failure *failure)
{
	const uint8_t *stop;
	size_t length;
	int ends[2];

	if (world.at == world.end || world.dials == DIALS) {
		failure_set(failure, EXIT_UNREACHABLE, "%s is gone", peer);
		return WIRE_CLOSED;
	}
	stop = memchr(world.at, WORLD_NEXT, (size_t)(world.end - world.at));
	if (stop == NULL)
		stop = world.end;
	length = (size_t)(stop - world.at);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
	if (length > 0 && stop[-1] == WORLD_SILENT)
		length--;
	MUST(write(ends[1], world.at, length) == (ssize_t)length);
	if (world.at + length == stop)
		shutdown(ends[1], SHUT_WR);
	world.far_ends[world.dials++] = ends[1];
	world.at = stop == world.end ? stop : stop + 1;
	*fd = ends[0];
	return WIRE_OK;
}

enum wire __wrap_dial(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, struct patience patience, struct failure *failure)
{
	MUST(endpoint->host[0] != '\0' && endpoint->port >= 0 && endpoint->port <= 65535);
	(void)lookup;
	(void)patience;
	return connect_next(fd, peer, failure);
}

enum wire __wrap_dial_begin(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, size_t which, size_t *count, struct failure *failure)
{
	(void)endpoint;
	(void)lookup;
	(void)which;
	*count = ADDRESSES;
	return connect_next(fd, peer, failure);
}

/* --- Threads -------------------------------------------------------------------------------- */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
	void *(*start)(void *argument), void *argument);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
	void *(*start)(void *argument), void *argument);
int __wrap_pthread_join(pthread_t thread, void **result);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
	void *(*start)(void *argument), void *argument)
{
	if (!world.runs)
		return __real_pthread_create(thread, attributes, start, argument);
	*thread = pthread_self();
	start(argument);
	return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	return world.runs ? 0 : __real_pthread_join(thread, result);
}
