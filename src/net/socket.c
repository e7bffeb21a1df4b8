#include "net/socket.h"

#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/failure.h"
#include "net/resolve.h"
#include "net/server.h"

#define FULL_PAUSE (2 * NANOS_PER_MS) /* until a listener's queue may have room again */

enum io_result socket_fail(int error, const char *peer, struct failure *failure)
{
	switch (error) {
	case EACCES:
	case EPERM:
		failure_set(failure, EXIT_REFUSED, "cannot reach %s: %s", peer, strerror(error));
		return IO_FAILED;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
		failure_set(failure, EXIT_SYSTEM, "cannot open a socket: %s", strerror(error));
		return IO_FAILED;
	default:
		failure_set(
			failure, EXIT_UNREACHABLE, "cannot reach %s: %s", peer, strerror(error));
		return IO_CLOSED;
	}
}

/* -1 with errno. */
static int open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0 && fd <= STDERR_FILENO) {
		int low = fd;

		fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		close(low);
	}
	if (fd >= 0 && family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	return fd;
}

static enum io_result fail_silent(const char *peer, struct failure *failure)
{
	failure_set(failure, EXIT_UNREACHABLE, "cannot reach %s: no answer", peer);
	return IO_TIMEOUT;
}

static enum io_result connect_socket(int fd, const struct sockaddr *address, socklen_t length,
	const char *peer, struct deadline deadline, struct failure *failure)
{
	enum deadline_end end;
	int error;
	socklen_t size = sizeof(error);

	/* EAGAIN: the listener's queue is full (unix sockets only; TCP repeats by itself). */
	while ((error = connect(fd, address, length) == 0 ? 0 : errno) == EAGAIN) {
		if (!deadline_pause(deadline, FULL_PAUSE))
			return IO_CANCELLED;
		if (deadline_is_over(&deadline))
			return fail_silent(peer, failure);
	}
	if (error == EINPROGRESS) {
		end = deadline_wait(&deadline, fd, POLLOUT);
		if (end != DEADLINE_READY)
			return end == DEADLINE_CANCELLED ? IO_CANCELLED
							 : fail_silent(peer, failure);
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
			error = errno;
	}
	return error == 0 ? IO_OK : socket_fail(error, peer, failure);
}

static enum io_result dial_address(int *fd, const struct sockaddr *address, socklen_t length,
	const char *peer, struct deadline deadline, struct failure *failure)
{
	enum io_result result;

	*fd = open_socket(address->sa_family);
	if (*fd < 0)
		return socket_fail(errno, peer, failure);
	result = connect_socket(*fd, address, length, peer, deadline, failure);
	if (result != IO_OK)
		close(*fd);
	return result;
}

static enum io_result dial_path(int *fd, const char *path, const char *peer,
	struct deadline deadline, struct failure *failure)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlcpy(address.sun_path, path, sizeof(address.sun_path)) >= sizeof(address.sun_path)) {
		failure_set(failure, EXIT_USAGE, "the path of %s is too long for a socket", peer);
		return IO_FAILED;
	}
	return dial_address(
		fd, (struct sockaddr *)&address, sizeof(address), peer, deadline, failure);
}

enum io_result socket_open(int *fd, const struct endpoint *endpoint, const char *peer,
	struct lookup **lookup, struct deadline deadline, struct failure *failure)
{
	struct addresses addresses;
	enum io_result result;

	if (endpoint->port == 0)
		return dial_path(fd, endpoint->host, peer, deadline, failure);
	result =
		resolve_host(lookup, endpoint->host, endpoint->port, deadline, &addresses, failure);
	if (result != IO_OK)
		return result;
	for (size_t i = 0; i < addresses.count; i++) {
		struct deadline share = deadline;
		nanos now = clock_now();

		/* An address that swallows what it is sent must not use up the time of the
		 * others. */
		if (deadline.until != NANOS_NEVER && deadline.until > now)
			share.until = now + (deadline.until - now) / (nanos)(addresses.count - i);
		result = dial_address(fd, (struct sockaddr *)&addresses.list[i].address,
			addresses.list[i].length, peer, share, failure);
		if (result == IO_OK || result == IO_CANCELLED)
			break;
	}
	return result;
}
