/*
 * What a dlock for simulated time has in the place of base/clock and poll(2), by --wrap: everything else is dlock as it
 * is. Each wait looks at its descriptors, says in the page that it found nothing to do, and looks again when the
 * scheduler asks. So simulated time goes on only when all that lives has nothing to do.
 */
#include "seam.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define TIMERS  1024
#define LOOK_NS 200000                        /* of real time, between two looks */
#define LOOKS_MOST 300000 /* without a new generation: a minute of real time and more */
#define EPOCH   INT64_C(1795232512000000)     /* us; the wall clock when the run began, redis_clock.c as well */
#define MIX     UINT64_C(0x9e3779b97f4a7c15)

static struct seam_page *page;
static nanos timers[TIMERS]; /* by descriptor; 0: none */
static _Thread_local struct seam_slot *slot;
static _Thread_local pid_t slot_tid; /* whose it is: a child has another */

struct seam_page *seam_open(void)
{
	const char *path = getenv("SIM_PAGE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *mapped = mmap(NULL, sizeof(struct seam_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (mapped == MAP_FAILED)
		abort();
	close(fd);
	return mapped;
}

static struct seam_page *the_page(void)
{
	if (!page)
		page = seam_open();
	return page;
}

static struct seam_slot *own_slot(void)
{
	if (slot && slot_tid == (pid_t)syscall(SYS_gettid))
		return slot;
	slot_tid = (pid_t)syscall(SYS_gettid);
	for (slot = the_page()->slots; slot < page->slots + SEAM_SLOTS; slot++) {
		int64_t nobody = 0;

		if (!atomic_compare_exchange_strong(&slot->tid, &nobody, slot_tid))
			continue;
		atomic_store(&slot->due, SEAM_RUNNING);
		atomic_store(&slot->pid, getpid());
		return slot;
	}
	abort();
}

nanos __wrap_clock_now(void);
int __wrap_clock_poll_ms(nanos until);
nanos __wrap_clock_jitter(nanos most);
int __wrap_clock_timer_open(void);
int __wrap_clock_timer_set(int timer, nanos when);
void __wrap_clock_timer_clear(int timer);
int64_t __wrap_clock_wall_us(void);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t size);

nanos __wrap_clock_now(void)
{
	return atomic_load(&the_page()->now);
}

int __wrap_clock_poll_ms(nanos until)
{
	nanos now = __wrap_clock_now();

	if (until == NANOS_NEVER)
		return -1;
	return until <= now ? 0 : (int)((until - now - 1) / NANOS_PER_MS + 1);
}

nanos __wrap_clock_jitter(nanos most)
{
	uint64_t mix = ((uint64_t)__wrap_clock_now() ^ (uint64_t)slot_tid) * MIX;

	return most <= 0 ? 0 : (nanos)((mix >> 20) % (uint64_t)most);
}

/* Something to poll; what makes it readable is the table. */
int __wrap_clock_timer_open(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd >= TIMERS)
		abort();
	if (fd >= 0)
		timers[fd] = NANOS_NEVER;
	return fd;
}

int __wrap_clock_timer_set(int timer, nanos when)
{
	timers[timer] = when < 1 ? 1 : when;
	return -1;
}

void __wrap_clock_timer_clear(int timer)
{
	if (timers[timer] <= __wrap_clock_now())
		timers[timer] = NANOS_NEVER;
}

int64_t __wrap_clock_wall_us(void)
{
	return EPOCH + __wrap_clock_now() / NANOS_PER_US;
}

int __wrap_close(int fd)
{
	if (fd >= 0 && fd < TIMERS)
		timers[fd] = 0;
	return __real_close(fd);
}

/* Marks the timers that have fired, and counts them; *due: when the next one does, if that is sooner. */
static int look_at_timers(struct pollfd *fds, nfds_t count, nanos now, nanos *due)
{
	int fired = 0;

	for (nfds_t i = 0; i < count; i++) {
		nanos when = fds[i].fd >= 0 && fds[i].fd < TIMERS ? timers[fds[i].fd] : 0;

		if (when == 0)
			continue;
		if (when < *due)
			*due = when;
		if (when <= now && fds[i].revents == 0) {
			fds[i].revents = POLLIN;
			fired++;
		}
	}
	return fired;
}

/* The wait is over. */
static int go_on(int ready)
{
	atomic_store(&slot->due, SEAM_RUNNING);
	atomic_fetch_add(&page->activity, 1);
	return ready;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms)
{
	const struct timespec pause = {0, LOOK_NS};
	nanos until = ms < 0 ? NANOS_NEVER : __wrap_clock_now() + ms * NANOS_PER_MS;

	int looks = 0;

	own_slot();
	for (;;) {
		int64_t generation = atomic_load(&page->generation);
		nanos now = __wrap_clock_now(), due = until;
		int ready = __real_poll(fds, count, 0);

		if (ready < 0)
			return go_on(ready);
		ready += look_at_timers(fds, count, now, &due);
		if (ready > 0 || until <= now)
			return go_on(ready);
		looks = generation == atomic_load(&slot->seen) ? looks + 1 : 0;
		if (looks > LOOKS_MOST)
			_exit(99); /* the scheduler is no longer there */
		atomic_store(&slot->due, due);
		atomic_store(&slot->seen, generation);
		if (ppoll(fds, count, &pause, NULL) < 0)
			return go_on(-1);
	}
}

/* What poll is with _FORTIFY_SOURCE. */
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int ms, size_t size)
{
	(void)size;
	return __wrap_poll(fds, count, ms);
}

int64_t seam_now(void)
{
	return __wrap_clock_now();
}

void seam_sleep(int64_t ms)
{
	(void)__wrap_poll(NULL, 0, (int)ms);
}
