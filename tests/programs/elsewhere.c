/*
 * Another /etc/dlock.conf and another /dev/log, by LD_PRELOAD, if nothing may be mounted there:
 * ELSEWHERE_CONF and ELSEWHERE_LOG are their paths, where they are set.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int open_it(const char *path, int flags, mode_t mode)
{
	const char *other = getenv("ELSEWHERE_CONF");

	if (other && strcmp(path, "/etc/dlock.conf") == 0)
		path = other;
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define OPEN(name)                                                                                 \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		va_list rest;                                                                      \
		mode_t mode;                                                                       \
                                                                                                   \
		va_start(rest, flags);                                                             \
		mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;                          \
		va_end(rest);                                                                      \
		return open_it(path, flags, mode);                                                 \
	}

/* What libc's headers make of open(2), with and without FORTIFY. */
#undef open
#undef open64
OPEN(open)
OPEN(open64)
OPEN(__open_2)
OPEN(__open64_2)

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
	const struct sockaddr_un *local = (const struct sockaddr_un *)address;
	struct sockaddr_un changed = {.sun_family = AF_UNIX};
	const char *other = getenv("ELSEWHERE_LOG");

	if (other && local->sun_family == AF_UNIX && strcmp(local->sun_path, "/dev/log") == 0 &&
		strlen(other) < sizeof(changed.sun_path)) {
		strcpy(changed.sun_path, other);
		address = (const struct sockaddr *)&changed;
		size = sizeof(changed);
	}
	return (int)syscall(SYS_connect, fd, address, size);
}
