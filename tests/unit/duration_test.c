/* Durations: what is read, what is refused, and how spans are shown. */
#include "base/duration.h"

#include <inttypes.h>

#include "tap.h"

#define S  NANOS_PER_SEC
#define MS NANOS_PER_MS

static const struct {
	const char *text;
	nanos wanted;
} good[] = {
	{"0", 0},
	{"1", S},
	{"2.5", 5 * S / 2},
	{".5", S / 2},
	{"5.", 5 * S},
	{"007", 7 * S},
	{"250ms", 250 * MS},
	{"0.5ms", MS / 2},
	{"45s", 45 * S},
	{"1m", 60 * S},
	{"1.5m", 90 * S},
	{"1m30s", 90 * S},
	{"30s1m", 90 * S},
	{"1s1s", 2 * S},
	{"2h", 7200 * S},
	{"7d", 604800 * S},
	{"1d2h3m4s5ms", 93784 * S + 5 * MS},
	{"0.000000001", 1},
	{"0.0000000001", 0},
	{"0.1234567890123456789012345678901234567890", 123456789},
	{"0.25d", 21600 * S},
	{"1.000000000000000000000000000001s", S},
	{"36525d", 86400 * S * 36525},
	{"00000000000000000000000000000001", S},
};

static const char *const bad[] = {
	"",
	" ",
	"s",
	"ms",
	".",
	".s",
	"-1",
	"+1",
	"1 ",
	" 1",
	"1 s",
	"1x",
	"1S",
	"1M",
	"1min",
	"1sec",
	"1s ",
	"1m30",
	"30 1m",
	"1,5",
	"1e3",
	"0x10",
	"inf",
	"nan",
	"1..5",
	"1.5.5",
	"1ms5",
	"1us",
	"36525d1ms",
	"36526d",
	"3155760001",
	"99999999999999999999",
	"9223372036854775808ms",
	"876600h0.001s",
	"36525.000000001d",
	"1\n",
	"\xc2\xb5s",
	"1\xc2\xb5s",
	"1s-1s",
	"1mms",
	"1sm",
	"abc",
	"1y",
	"--5",
	"5-",
	"1ss",
	"0.5.",
	"1m 30s",
	"1000000000d",
	"\xd9\xa3",
};

static const struct {
	nanos span;
	const char *wanted;
} shown[] = {
	{0, "0s"},
	{-5 * S, "0s"},
	{1, "0ms"},
	{MS, "1ms"},
	{120 * MS, "120ms"},
	{999999999, "999ms"},
	{S, "1s"},
	{S + 999 * MS, "1s"},
	{45 * S, "45s"},
	{60 * S, "1m"},
	{133 * S, "2m13s"},
	{3599 * S, "59m59s"},
	{3600 * S, "1h"},
	{3601 * S, "1h"},
	{3660 * S, "1h1m"},
	{273600 * S, "3d4h"},
	{INT64_MAX, "106751d23h"},
};

static const struct {
	const char *text;
	const char *meant; /* NULL: no guess */
} guessed[] = {
	{"5min", "5m"},
	{"5 minutes", "5m"},
	{" 1.5 Hours ", "1.5h"},
	{"1 h 30 min", "1h30m"},
	{"250msec", "250ms"},
	{"1D", "1d"},
	{"", NULL},
	{"min", NULL},
	{"5minn", NULL},
	{"5", NULL},
	{"1..5min", NULL},
	{"1m30", NULL},
	{"1111111111111111111111111111111111111111min", NULL},
	{"1min1min1min1min1min1min1min1min1min1min1min1min1min1min1min1min1min", NULL},
};

/* As they are written by duration_format_given, too. */
static const char *const given[] = {
	"0s",
	"1s",
	"2.5s",
	"300ms",
	"0.5ms",
	"1.000001ms",
	"1m",
	"1m30s",
	"1m0.25s",
	"1h0.001s",
	"6s",
	"2d3h4m5.678s",
	"36500d",
	"59.999999999s",
};

int main(void)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		nanos got = -1;
		bool read = duration_parse(good[i].text, &got);

		ok(read && got == good[i].wanted, "\"%s\" is %" PRId64 " ns (got %" PRId64 ")",
			good[i].text, good[i].wanted, got);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		nanos got = -7;

		ok(!duration_parse(bad[i], &got) && got == -7,
			"refuses number %zu of the malformed ones", i);
	}
	for (size_t i = 0; i < COUNT(shown); i++) {
		char text[DURATION_TEXT];

		same(duration_format(shown[i].span, text), shown[i].wanted, shown[i].wanted);
	}
	for (size_t i = 0; i < COUNT(given); i++) {
		char text[DURATION_TEXT];
		nanos span = -1;

		duration_parse(given[i], &span);
		same(duration_format_given(span, text), given[i], given[i]);
	}
	for (size_t i = 0; i < COUNT(guessed); i++) {
		char text[DURATION_TEXT];

		if (guessed[i].meant == NULL)
			ok(!duration_guess(guessed[i].text, text), "no guess number %zu", i);
		else
			same(duration_guess(guessed[i].text, text) ? text : "", guessed[i].meant,
				guessed[i].text);
	}
	return tap_end();
}
