/*
 * Time for everything that a lock's safety leans on. CLOCK_BOOTTIME counts suspended time, which
 * CLOCK_MONOTONIC does not (clock_gettime(2), since Linux 2.6.39), and no one can set it.
 */
#pragma once

#include <stdint.h>

typedef int64_t nanos; /* a moment on CLOCK_BOOTTIME, or a span; in nanoseconds */

#define NANOS_PER_US  INT64_C(1000)
#define NANOS_PER_MS  INT64_C(1000000)
#define NANOS_PER_SEC INT64_C(1000000000)
#define NANOS_NEVER   INT64_MAX /* a moment that does not come */

/* The moment now. Any thread; cannot fail. */
nanos clock_now(void);

/* moment + span, but never past NANOS_NEVER. Both >= 0. */
nanos clock_after(nanos moment, nanos span);

/* The time until a moment as a timeout for poll(2): rounded up to whole ms, 0 when it has
 * passed, -1 for NANOS_NEVER. */
int clock_poll_ms(nanos until);

/* A timerfd on CLOCK_BOOTTIME, close-on-exec and non-blocking, not armed; -1 with errno. A
 * timeout of poll(2) would not count suspended time. */
int clock_timer_open(void);

/* A span from 0 up to `most`, at random enough that hosts do not come in step. From the clock, so
 * that it cannot fail: arc4random(3) ends the process if there is no memory for it. */
nanos clock_jitter(nanos most);

/* Arms it for a moment (one in the past fires at once), or disarms it with NANOS_NEVER. Returns the
 * timeout for the poll(2) that waits for it: -1, or a few ms if the timer could not be set. */
int clock_timer_set(int timer, nanos when);

/* Takes what the timer has fired, so that it is readable no longer. */
void clock_timer_clear(int timer);

/* The wall clock (CLOCK_REALTIME), in us. */
int64_t clock_wall_us(void);
