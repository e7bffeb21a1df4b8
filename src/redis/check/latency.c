/* Ten round trips, and what the clocks say meanwhile. */
#include "redis/check/probe.h"

#include <stdlib.h>

#include "base/duration.h"
#include "base/number.h"

#define CLOCK_MOST (INT64_C(1) << 32) /* seconds: what a server says may be anything */
#define TRIPS      10
#define SLOWEST    (250 * NANOS_PER_MS) /* SIGKILL comes that long before the lock may be granted */

static int64_t read_number(const char *text, int64_t most)
{
	return number_within(strtoll(text, NULL, 10), 0, most);
}

/* The clocks are compared half-way through the shortest trip. */
static bool travel(struct probe *probe, nanos trips[static TRIPS])
{
	static const struct probe_command ask = {.words = {"TIME"}};
	nanos shortest = NANOS_NEVER;

	for (size_t i = 0; i < TRIPS; i++) {
		int64_t before = clock_wall_us();
		nanos started = clock_now();
		struct reply *reply;
		const char *seconds, *micros;

		if (!probe_ask(probe, "latency", &ask, 1, &reply))
			return false;
		trips[i] = clock_now() - started;
		seconds = reply_text(reply_at(reply, 0));
		micros = reply_text(reply_at(reply, 1));
		if (seconds && micros && trips[i] < shortest) {
			shortest = trips[i];
			probe->timed = true;
			probe->ahead_us = read_number(seconds, CLOCK_MOST) * 1000000 +
					  read_number(micros, 1000000) - before -
					  trips[i] / NANOS_PER_US / 2;
		}
		reply_free(reply);
	}
	qsort(trips, TRIPS, sizeof(*trips), number_compare);
	return true;
}

static void judge_latency(struct probe *probe, const nanos trips[static TRIPS])
{
	nanos tenth = probe->request->ttl_ms * NANOS_PER_MS / 10;
	nanos most = tenth < SLOWEST ? tenth : SLOWEST;
	nanos median = trips[TRIPS / 2];
	bool slow = trips[TRIPS - 1] > most;

	probe_report(probe, "latency", slow ? LOCK_DOUBTFUL : LOCK_FIT, EXIT_DONE,
		slow ? "a longer --ttl, or a server that is nearer or has less to do" : NULL,
		"%d round trips: median %.2fms, slowest %.2fms", TRIPS,
		(double)median / (double)NANOS_PER_MS,
		(double)trips[TRIPS - 1] / (double)NANOS_PER_MS);
}

static void judge_clock(struct probe *probe)
{
	int64_t apart = probe->ahead_us < 0 ? -probe->ahead_us : probe->ahead_us;
	bool far = apart > PROBE_CLOCKS;
	char span[DURATION_TEXT];

	if (!probe->timed) {
		DOUBT("clock", "let the user call TIME", "not known: TIME is refused");
		return;
	}
	probe_report(probe, "clock", far ? LOCK_DOUBTFUL : LOCK_FIT, EXIT_DONE,
		far ? "keep both clocks right (NTP), and never step the server's: its clock is "
		      "what fencing tokens, --once and --cooldown go by"
		    : NULL,
		"%s %s this host's", duration_format(apart / 1000 * NANOS_PER_MS, span),
		probe->ahead_us < 0 ? "behind" : "ahead of");
}

bool latency_check(struct probe *probe)
{
	nanos trips[TRIPS];

	if (!travel(probe, trips))
		return false;
	judge_latency(probe, trips);
	judge_clock(probe);
	return true;
}
