/*
 * A COMMAND that notices what a lock failed to prevent. The kernel is the judge, not the lock: each
 * command, and what descends from it, holds an flock(2) on one local file for as long as it lives.
 *
 *	oracle MODE FILE BUSY_MS [LINGER_MS]
 *
 * MODE is x, s for a shared lock, or pK for one of K permits, each of which is a file of its own. A
 * flock that is not free: another holder's command still lives, an overlap. A fence that is not
 * above the one in FILE: tokens did not grow. Either is a line in FILE.violations. Otherwise x
 * writes DLOCK_FENCE into FILE, BUSY_MS pass at most, at random, and with LINGER_MS a descendant in
 * a session of its own lives on for as long at most, deaf to every polite signal. Each good run is a
 * line in FILE.log.
 *
 * HISTORY=PORT:RUN in the environment: the beginning is told there as well, and all that descends from
 * the command keeps that connection (lib/history.py).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
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
	length = snprintf(line, sizeof(line), "%" PRId64 " pid %d keeper %d ", now_ms(),
		(int)getpid(), (int)getppid());
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

/* One of K files that no process has; the descriptor stays open. */
static bool take_permit(const char *file, int most)
{
	for (int i = 0; i < most; i++) {
		char path[4096];
		int fd;

		snprintf(path, sizeof(path), "%s.permit%d", file, i);
		fd = open(path, O_RDWR | O_CREAT, 0644);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		close(fd);
	}
	return false;
}

/* Whether the fence is above the last that was written; x writes its own. Of permits any may be
 * granted while others are held, so theirs come in no order here. */
static bool check_fence(const char *file, int fd, char mode, const char *fence)
{
	char text[32] = "";

	if (mode == 'p')
		return true;
	if (pread(fd, text, sizeof(text) - 1, 0) < 0)
		abort();
	if (strtoull(fence, NULL, 10) <= strtoull(text, NULL, 10)) {
		note(file, "violations", "fence %s after %s\n", fence, text);
		return false;
	}
	snprintf(text, sizeof(text), "%-20s\n", fence);
	if (mode == 'x' && pwrite(fd, text, strlen(text), 0) < 0)
		abort();
	return true;
}

/* Tells the history that the command has begun, and waits until that is written. */
static void tell_history(const char *mode, const char *file, const char *fence, bool free)
{
	const char *where = getenv("HISTORY"), *run = where ? strchr(where, ':') : NULL;
	struct sockaddr_in address = {.sin_family = AF_INET};
	const char *lock = strrchr(file, '/');
	int fd = run ? socket(AF_INET, SOCK_STREAM, 0) : -1;
	char answer;

	if (!run)
		return;
	address.sin_port = htons((in_port_t)atoi(where));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		dprintf(fd, "%s lock=%s mode=%s fence=%s flock=%s\n", run + 1, lock ? lock + 1 : file,
			mode, fence, free ? "free" : "held") < 0 ||
		read(fd, &answer, 1) != 1)
		abort();
}

static bool take_flock(const char *mode, const char *file, int fd)
{
	if (mode[0] == 'p')
		return take_permit(file, atoi(mode + 1));
	return flock(fd, (mode[0] == 's' ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
}

int main(int argc, char **argv)
{
	const char *fence = getenv("DLOCK_FENCE");
	char mode = argc > 3 ? argv[1][0] : '\0';
	int fd = argc > 3 ? open(argv[2], O_RDWR | O_CREAT, 0644) : -1;
	bool free;

	if (fd < 0 || !fence)
		return 99;
	srandom((unsigned)(now_ms() ^ getpid()));
	free = take_flock(argv[1], argv[2], fd);
	tell_history(argv[1], argv[2], fence, free);
	if (!free) {
		note(argv[2], "violations", "overlap, %s, fence %s\n", argv[1], fence);
		return 98;
	}
	if (!check_fence(argv[2], fd, mode, fence))
		return 97;
	if (argc > 4)
		leave_descendant(atol(argv[4]));
	pass(atol(argv[3]));
	note(argv[2], "log", "%s fence %s\n", argv[1], fence);
	return 0;
}
