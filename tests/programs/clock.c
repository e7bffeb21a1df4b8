/*
 * A preloaded library that lets the wall clock of a program jump while it runs: TEST_CLOCK names a
 * file of at least 8 characters that holds how far off it is, in seconds. The clocks that count
 * from boot stay as they are. (libfaketime does not start under jemalloc, with which redis-server
 * is built.)
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const char *offset;

__attribute__((constructor)) static void clock_open(void)
{
	const char *path = getenv("TEST_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd < 0 ? MAP_FAILED : mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);

	offset = page == MAP_FAILED ? NULL : page;
	if (fd >= 0)
		close(fd);
}

static time_t off(void)
{
	return offset ? strtol(offset, NULL, 10) : 0;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int result = (int)syscall(SYS_clock_gettime, id, ts);

	if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ts->tv_sec += off();
	return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &ts);
	*tv = (struct timeval){ts.tv_sec, ts.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *result)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (result)
		*result = ts.tv_sec;
	return ts.tv_sec;
}
