#include "world.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"
#include "fuzz.h"
#include "net/server.h"
#include "net/socket.h"
#include "redis/quorum/quorum.h"

#define BEGIN      (1000 * NANOS_PER_SEC)
#define SPAN       (60 * NANOS_PER_SEC)
#define PAUSE      (300 * NANOS_PER_MS)
#define DIALS      96
#define LOOKS_MOST 200000 /* at sockets, in one run */

struct far_end {
	int fd;     /* what is not read in there stays */
	void *self; /* the voice's */
	const uint8_t *at, *stop;
	nanos goes_on_at; /* NANOS_NEVER: all is said */
	bool began;       /* what it says begins with a pause that is not over: false */
};

static struct {
	bool runs; /* outside of a run libFuzzer has threads and a clock as well */
	const struct world_voice *voice;
	const uint8_t *at, *stop;
	nanos now;
	struct far_end far_ends[DIALS];
	int dials;
	int cancel; /* readable once Ctrl-C was pressed */
	bool cancelled;
	int open; /* descriptors, before it began */
	long looks;
} world = {.cancel = -1};

/* --- The voice that says what stands there -------------------------------------------------- */

static void *begin_plainly(int fd)
{
	(void)fd;
	return NULL;
}

/* What the client says is of no interest, but fills the socket. */
static bool turn_plainly(void *self, int fd)
{
	(void)self, (void)fd;
	return true;
}

static void say_plainly(void *self, int fd, const uint8_t *bytes, size_t size)
{
	(void)self;
	(void)!send(fd, bytes, size, MSG_NOSIGNAL);
}

static void act_plainly(void *self, int fd, uint8_t what)
{
	say_plainly(self, fd, &what, 1);
}

static void end_plainly(void *self)
{
	(void)self;
}

static const struct world_voice plain = {
	begin_plainly, turn_plainly, say_plainly, act_plainly, end_plainly};

/* --- What is said --------------------------------------------------------------------------- */

static void hang_up(struct far_end *far)
{
	if (far->fd >= 0)
		close(far->fd);
	far->fd = -1;
	far->goes_on_at = NANOS_NEVER;
}

static void press_ctrl_c(void)
{
	world.cancelled = true;
	MUST(eventfd_write(world.cancel, 1) == 0);
}

static void drain(const struct far_end *far)
{
	char bytes[4096];

	while (recv(far->fd, bytes, sizeof(bytes), 0) > 0)
		continue;
}

static void heed_mark(struct far_end *far, uint8_t mark)
{
	switch (mark) {
	case WORLD_ACT:
		if (far->at < far->stop)
			world.voice->act(far->self, far->fd, *far->at++);
		break;
	case WORLD_BREAKS:
		hang_up(far);
		break;
	case WORLD_CANCELS:
		press_ctrl_c();
		break;
	case WORLD_PAUSES:
		far->goes_on_at = world.now + PAUSE;
		break;
	case WORLD_SILENT:
		far->goes_on_at = NANOS_NEVER;
		break;
	default:
		break;
	}
}

static void go_on(struct far_end *far)
{
	while (far->goes_on_at <= world.now && far->at < far->stop) {
		const uint8_t *from = far->at;

		while (far->at < far->stop && *far->at < WORLD_ACT)
			far->at++;
		if (far->at > from)
			world.voice->say(far->self, far->fd, from, (size_t)(far->at - from));
		if (far->at < far->stop)
			heed_mark(far, *far->at++);
	}
	if (far->goes_on_at > world.now)
		return;
	far->goes_on_at = NANOS_NEVER;
	shutdown(far->fd, SHUT_WR);
}

static void speak(void)
{
	for (int i = 0; i < world.dials; i++) {
		struct far_end *far = &world.far_ends[i];
		bool ready;

		far->began |= far->goes_on_at <= world.now;
		if (far->fd < 0 || !far->began)
			continue;
		ready = world.voice->turn(far->self, far->fd);
		if (!ready || far->goes_on_at > world.now)
			continue;
		if (world.voice == &plain)
			drain(far);
		go_on(far);
	}
}

/* When the next pause is over. */
static nanos next_due(void)
{
	nanos due = NANOS_NEVER;

	for (int i = 0; i < world.dials; i++)
		if (world.far_ends[i].goes_on_at > world.now && world.far_ends[i].goes_on_at < due)
			due = world.far_ends[i].goes_on_at;
	return due;
}

/* --- A run ---------------------------------------------------------------------------------- */

static int count_open(void)
{
	int count = 0;

	for (int fd = 0; fd < 3 * DIALS; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

struct deadline world_patience(void)
{
	return (struct deadline){
		.until = world.now + SPAN, .cancel_fd = world.cancelled ? -1 : world.cancel};
}

void world_begin(const uint8_t *data, size_t size, const struct world_voice *voice)
{
	world.open = count_open();
	world.cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	MUST(world.cancel >= 0);
	world.cancelled = false;
	world.runs = true;
	world.voice = voice ? voice : &plain;
	world.at = data;
	world.stop = data + size;
	world.now = BEGIN;
	world.dials = 0;
	world.looks = 0;
}

void world_end(void)
{
	speak(); /* what was sent last is looked at as well */
	world.runs = false;
	while (world.dials > 0) {
		hang_up(&world.far_ends[--world.dials]);
		world.voice->end(world.far_ends[world.dials].self);
	}
	close(world.cancel);
	MUST(count_open() == world.open);
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
enum deadline_end __wrap_deadline_wait(struct deadline *deadline, int fd, short events);

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

static int wait_until(struct pollfd *fds, nfds_t count, nanos until)
{
	MUST(++world.looks < LOOKS_MOST);
	world.now += NANOS_PER_US;
	for (;;) {
		int ready;
		nanos due;

		speak();
		ready = __real_poll(fds, count, 0);
		if (ready > 0)
			return ready;
		due = next_due();
		MUST(due != NANOS_NEVER || until != NANOS_NEVER);
		if (due > until)
			break;
		world.now = due;
	}
	if (world.now < until)
		world.now = until;
	return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms)
{
	return wait_until(fds, count, ms < 0 ? NANOS_NEVER : world.now + ms * NANOS_PER_MS);
}

/* What poll is with _FORTIFY_SOURCE. */
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t size)
{
	MUST(count * sizeof(*fds) <= size);
	return __wrap_poll(fds, count, ms);
}

enum deadline_end __wrap_deadline_wait(struct deadline *deadline, int fd, short events)
{
	struct pollfd fds[] = {
		{.fd = fd, .events = events}, {.fd = deadline->cancel_fd, .events = POLLIN}};

	MUST(deadline->until != NANOS_NEVER);
	if (wait_until(fds, 2, deadline->until) == 0)
		return DEADLINE_OVER;
	return fds[0].revents ? DEADLINE_READY : DEADLINE_CANCELLED;
}

/* --- Connections ---------------------------------------------------------------------------- */

enum io_result __wrap_socket_open(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, struct deadline deadline, struct failure *failure);
/* What the next one says; NULL: there is none. */
static struct far_end *next_far_end(void)
{
	struct far_end *far = &world.far_ends[world.dials];

	if (world.at == world.stop || world.dials == DIALS)
		return NULL;
	far->at = world.at;
	far->stop = memchr(world.at, WORLD_NEXT, (size_t)(world.stop - world.at));
	world.at = far->stop ? far->stop + 1 : world.stop;
	if (!far->stop)
		far->stop = world.stop;
	far->goes_on_at = world.now;
	world.dials++;
	return far;
}

static int begin_far_end(struct far_end *far)
{
	int ends[2], least = 1;

	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	far->fd = ends[1];
	far->self = world.voice->begin(far->fd);
	if (far->at < far->stop && *far->at == WORLD_TAKES_LITTLE) {
		far->at++;
		setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	}
	for (; far->at < far->stop && *far->at == WORLD_PAUSES; far->at++)
		far->goes_on_at += PAUSE;
	far->began = far->goes_on_at == world.now;
	if (far->began && world.voice->turn(far->self, far->fd))
		go_on(far);
	return ends[0];
}

static enum io_result fail_gone(const char *peer, struct failure *failure)
{
	failure_set(failure, EXIT_UNREACHABLE, "%s is gone", peer);
	return IO_CLOSED;
}

enum io_result __wrap_socket_open(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, struct deadline deadline, struct failure *failure)
{
	struct far_end *far = next_far_end();

	MUST(endpoint->host[0] != '\0' && endpoint->port >= 0 && endpoint->port <= 65535);
	(void)lookup;
	(void)deadline;
	if (!far)
		return fail_gone(peer, failure);
	*fd = begin_far_end(far);
	return IO_OK;
}

/* --- Threads -------------------------------------------------------------------------------- */

void __wrap_voter_order(struct voter *voter, enum task task);

/* The servers of a quorum are spoken to one after the other. */
void __wrap_voter_order(struct voter *voter, enum task task)
{
	voter->task = task;
	voter->ordered++;
	voter->written = false;
	voter->word = LOCK_TIMEOUT;
	while (voter_is_pending(voter))
		voter_obey(voter);
}

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
