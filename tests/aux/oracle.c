/*
 * A COMMAND that notices what a lock failed to prevent. The kernel is the judge, not the lock: each
 * command, and what descends from it, holds an flock(2) on one local file for as long as it lives.
 *
 *	oracle FILE BUSY_MS [LINGER_MS]
 *
 * A flock that is not free: somebody else's command still lives, an overlap. A fence that is not
 * above the one in FILE: tokens did not grow. Either is a line in FILE.violations. Otherwise
 * DLOCK_FENCE is written into FILE, BUSY_MS pass at most, at random, and with LINGER_MS a
 * descendant in a session of its own lives on for as long at most, deaf to every polite signal.
 * Each good run is a line in FILE.log.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void pass(long most_ms)
{
	long ms = most_ms > 0 ? random() % most_ms : 0;
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		continue;
}

static void note(const char *file, const char *ending, const char *format, ...)
{
	char path[4096], line[512];
	va_list args;
	int fd, length;

	snprintf(path, sizeof(path), "%s.%s", file, ending);
	length = snprintf(line, sizeof(line), "%" PRId64 " pid %d keeper %d ", now_ms(), (int)getpid(),
		(int)getppid());
	va_start(args, format);
	length += vsnprintf(line + length, sizeof(line) - (size_t)length, format, args);
	va_end(args);
	fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, (size_t)length) != length)
		abort();
	close(fd);
}

/* Keeps the descriptor, and so the flock, that it shares with us. */
static void leave_descendant(long linger_ms)
{
	if (fork() != 0)
		return;
	setsid();
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (fork() != 0)
		_exit(0);
	pass(linger_ms);
	_exit(0);
}

int main(int argc, char **argv)
{
	char text[32] = "";
	const char *fence = getenv("DLOCK_FENCE");
	int fd = argc > 2 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;

	if (fd < 0 || !fence)
		return 99;
	srandom((unsigned)(now_ms() ^ getpid()));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		note(argv[1], "violations", "overlap, fence %s\n", fence);
		return 98;
	}
	if (pread(fd, text, sizeof(text) - 1, 0) < 0)
		return 99;
	if (strtoull(fence, NULL, 10) <= strtoull(text, NULL, 10)) {
		note(argv[1], "violations", "fence %s after %s\n", fence, text);
		return 97;
	}
	snprintf(text, sizeof(text), "%-20s\n", fence);
	if (pwrite(fd, text, strlen(text), 0) < 0)
		return 99;
	if (argc > 3)
		leave_descendant(atol(argv[3]));
	pass(atol(argv[2]));
	note(argv[1], "log", "fence %s\n", fence);
	return 0;
}
