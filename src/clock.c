#include "clock.h"

#include <limits.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

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

int clock_timer_open(void)
{
	return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void clock_timer_set(int timer, nanos when)
{
	struct itimerspec spec = {0};

	if (when != NANOS_NEVER) {
		if (when < 1)
			when = 1; /* an it_value of zero would disarm it */
		spec.it_value.tv_sec = when / NANOS_PER_SEC;
		spec.it_value.tv_nsec = when % NANOS_PER_SEC;
	}
	timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

void clock_timer_clear(int timer)
{
	uint64_t fired;

	(void)!read(timer, &fired, sizeof(fired));
}
