/*
 * A COMMAND that writes down when it ran.
 *
 *	stamp LOG [MS]
 *
 * Appends "BEGIN END" in nanoseconds of CLOCK_MONOTONIC, having slept MS between them (0: not at
 * all). One write with O_APPEND, so that lines of many processes do not mix.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	int64_t begin = now();
	char line[64];
	int log, length;

	if (argc < 2) {
		fputs("usage: stamp LOG [MS]\n", stderr);
		return 64;
	}
	log = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (argc > 2)
		usleep((useconds_t)atoi(argv[2]) * 1000);
	length = snprintf(line, sizeof(line), "%" PRId64 " %" PRId64 "\n", begin, now());
	if (log < 0 || write(log, line, (size_t)length) != length) {
		fprintf(stderr, "stamp: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	return 0;
}
