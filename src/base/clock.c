#include "base/clock.h"

#include <limits.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define UNTIMED_MS 10 /* between two looks, if there is no timer */

nanos clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * NANOS_PER_SEC + ts.tv_nsec;
}

nanos clock_after(nanos moment, nanos span)
{
	return span > NANOS_NEVER - moment ? NANOS_NEVER : moment + span;
}

int clock_poll_ms(nanos until)
{
	if (until == NANOS_NEVER)
		return -1;

	nanos left = until - clock_now();

	if (left <= 0)
		return 0;
	left = (left - 1) / NANOS_PER_MS + 1;
	return left > INT_MAX ? INT_MAX : (int)left;
}

/* The last steps of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators). */
nanos clock_jitter(nanos most)
{
	uint64_t mix = (uint64_t)clock_now() ^ (uint64_t)getpid() << 40;

	mix = (mix ^ mix >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mix = (mix ^ mix >> 27) * UINT64_C(0x94d049bb133111eb);
	return most <= 0 ? 0 : (nanos)((mix ^ mix >> 31) % (uint64_t)most);
}

int clock_timer_open(void)
{
	return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

int clock_timer_set(int timer, nanos when)
{
	struct itimerspec spec = {0};

	if (when != NANOS_NEVER) {
		if (when < 1)
			when = 1; /* an it_value of zero would disarm it */
		spec.it_value.tv_sec = when / NANOS_PER_SEC;
		spec.it_value.tv_nsec = when % NANOS_PER_SEC;
	}
	return timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL) == 0 ? -1 : UNTIMED_MS;
}

void clock_timer_clear(int timer)
{
	uint64_t fired;

	(void)!read(timer, &fired, sizeof(fired));
}

int64_t clock_wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}
