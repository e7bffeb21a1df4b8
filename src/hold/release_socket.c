#include "hold/release_socket.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/hash.h"

/* From the first try to connect to the answer; the keeper itself tries for 2 s. */
#define ANSWER_WITHIN (10 * NANOS_PER_SEC)
#define AGAIN_AFTER   (10 * NANOS_PER_MS)

/* Any user can list the sockets' names, so the lock's is not in it. */
static socklen_t make_address(const struct release_address *named, struct sockaddr_un *address)
{
	uint64_t sum = hash_text(hash_text(HASH_BASIS, named->prefix), named->name);
	int length;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX}; /* a NUL first: abstract */
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
		"dlock/%" PRIu64 "/%d/%" PRIu64 "/%016" PRIx64, named->space, (int)named->pid,
		named->start, sum);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_trusted(int fd)
{
	struct ucred other;
	socklen_t size = sizeof(other);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
	       (other.uid == geteuid() || other.uid == 0);
}

bool release_socket_open(struct release_socket *keeper, const struct release_address *named)
{
	struct sockaddr_un address;
	socklen_t length = make_address(named, &address);
	int fd;
	int error;

	if (named->space == 0) {
		errno = ENOENT;
		return false;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 &&
		listen(fd, RELEASE_SOCKET_REQUESTERS) == 0) {
		keeper->fd = fd;
		return true;
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return false;
}

static void accept_requests(struct release_socket *keeper, int most)
{
	int requester;

	while (keeper->fd >= 0 && keeper->count < most &&
		(requester = accept4(keeper->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (is_trusted(requester))
			keeper->requesters[keeper->count++] = requester;
		else
			close(requester);
	}
}

bool release_socket_accept(struct release_socket *keeper)
{
	accept_requests(keeper, RELEASE_SOCKET_REQUESTERS);
	return keeper->count > 0;
}

void release_socket_close(struct release_socket *keeper)
{
	if (keeper->fd < 0)
		return;
	/* From here on no request gets through; those that came before can still be accepted. */
	shutdown(keeper->fd, SHUT_RDWR);
	accept_requests(keeper, sizeof(keeper->requesters) / sizeof(keeper->requesters[0]));
	close(keeper->fd);
	keeper->fd = -1;
}

void release_socket_answer(struct release_socket *keeper, int exit_code)
{
	uint8_t answer = (uint8_t)exit_code;

	for (; keeper->count > 0; keeper->count--)
		(void)!send(keeper->requesters[keeper->count - 1], &answer, sizeof(answer),
			MSG_NOSIGNAL);
}

/* poll(2) cannot wait for room in the backlog. */
static bool connect_within(int fd, const struct release_address *named, struct deadline *limit)
{
	struct sockaddr_un address;
	socklen_t length = make_address(named, &address);

	while (connect(fd, (struct sockaddr *)&address, length) != 0)
		if (errno != EAGAIN || deadline_is_over(limit) ||
			!deadline_pause(*limit, AGAIN_AFTER))
			return false;
	return true;
}

static int read_answer(int fd, struct deadline *limit)
{
	uint8_t answer;

	if (deadline_wait(limit, fd, POLLIN) != DEADLINE_READY)
		return -2;
	return recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer) ? answer : -2;
}

int release_socket_request(const struct release_address *named)
{
	struct deadline limit = {.until = clock_now() + ANSWER_WITHIN, .cancel_fd = -1};
	int fd = named->space == 0 ? -1
				   : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int answer = -1;

	if (fd < 0)
		return -1;
	if (!connect_within(fd, named, &limit))
		answer = errno == EAGAIN ? -2 : -1;
	else if (is_trusted(fd))
		answer = read_answer(fd, &limit);
	close(fd);
	return answer;
}
