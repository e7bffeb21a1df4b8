/*
 * LD_PRELOAD=skew.so SKEW_MS=N: a host whose wall clock is N ms ahead, or behind. That clock alone:
 * libfaketime also shifts what timerfd_settime(2) gets for CLOCK_BOOTTIME, as no wrong clock does.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000LL

int clock_gettime(clockid_t clock, struct timespec *time)
{
	long result = syscall(SYS_clock_gettime, clock, time);
	const char *skew = getenv("SKEW_MS");

	if (result == 0 && skew && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		long long now = time->tv_sec * BILLION + time->tv_nsec + atoll(skew) * 1000000;

		time->tv_sec = now / BILLION;
		time->tv_nsec = now % BILLION;
	}
	return (int)result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (seconds)
		*seconds = now.tv_sec;
	return now.tv_sec;
}
