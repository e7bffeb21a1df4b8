#include "base/unstuck.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define STUCK_MS 50 /* how long a full pipe, or a terminal stopped by Ctrl-S, is waited for */

static bool has_room(int fd)
{
	struct pollfd out = {.fd = fd, .events = POLLOUT};

	return poll(&out, 1, STUCK_MS) != 0;
}

static bool write_whole(int fd, const char *text, size_t length)
{
	ssize_t written;

	do
		written = write(fd, text, length);
	while (written < 0 && errno == EINTR);
	return written == (ssize_t)length;
}

bool unstuck_send(int fd, const char *text, size_t length)
{
	return has_room(fd) &&
	       send(fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

/* By an open file of our own, which may be non-blocking. If the file is not ours to open (a
 * terminal after su(1)), poll(2) has to do. */
static bool write_anew(int fd, const char *path, const char *text, size_t length)
{
	int own = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool written;

	if (own < 0)
		return write_whole(fd, text, length);
	written = write_whole(own, text, length);
	close(own);
	return written;
}

bool unstuck_write(int fd, const char *path, const char *text, size_t length)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return false;
	if (S_ISSOCK(status.st_mode))
		return unstuck_send(fd, text, length);
	if (S_ISREG(status.st_mode))
		return write_whole(fd, text, length);
	return has_room(fd) && write_anew(fd, path, text, length);
}
