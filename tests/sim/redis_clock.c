/*
 * A preloaded library by which a redis-server goes by simulated time. (dlock itself needs none: seam.c is linked in.)
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "seam.h"

#define EPOCH INT64_C(1795232512) /* s; as in seam.c */

static const struct seam_page *page;

/* jemalloc asks for the time before there is anything to say. */
__attribute__((constructor)) static void page_open(void)
{
	int fd = open(getenv("SIM_PAGE"), O_RDONLY | O_CLOEXEC);
	void *mapped = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, fd, 0);

	page = mapped == MAP_FAILED ? NULL : mapped;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	int64_t now = page ? atomic_load(&page->now) : 0;

	ts->tv_sec = now / 1000000000 + (id == CLOCK_REALTIME ? EPOCH : 0);
	ts->tv_nsec = now % 1000000000;
	return 0;
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
