/*
 * Looks at a process's children 150 ms late, by LD_PRELOAD: whoever is told to end meanwhile has
 * ended, and its children are another's.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PATH_PREFIX "/proc/"
#define PATH_SUFFIX "/children"

static int look(const char *path, int flags, mode_t mode)
{
	size_t length = strlen(path);

	if (strncmp(path, PATH_PREFIX, strlen(PATH_PREFIX)) == 0 && length > strlen(PATH_SUFFIX) &&
		strcmp(path + length - strlen(PATH_SUFFIX), PATH_SUFFIX) == 0)
		nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* The third argument is garbage where there is none, and is looked at by nobody then. */
int open(const char *path, int flags, ...)
{
	va_list rest;
	int fd;

	va_start(rest, flags);
	fd = look(path, flags, va_arg(rest, mode_t));
	va_end(rest);
	return fd;
}

/* That is its name with large files. */
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
