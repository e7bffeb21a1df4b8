#include "doorbell.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define ANSWER_WITHIN 10 /* s; the keeper itself tries for 2 s */

#define FNV_BASIS UINT64_C(14695981039346656037)
#define FNV_PRIME UINT64_C(1099511628211)

/* FNV-1a (draft-eastlake-fnv): any user can list the sockets' names, so the lock's is not in it. */
static uint64_t hash(uint64_t sum, const char *text)
{
	do
		sum = (sum ^ (unsigned char)*text) * FNV_PRIME;
	while (*text++ != '\0');
	return sum;
}

static socklen_t make_address(const struct doorbell *bell, struct sockaddr_un *address)
{
	uint64_t sum = hash(hash(FNV_BASIS, bell->prefix), bell->name);
	int length;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX}; /* a NUL first: abstract */
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
		"dlock/%d/%" PRIu64 "/%016" PRIx64, (int)bell->pid, bell->start, sum);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int open_socket(int flags)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

static bool is_trusted(int fd)
{
	struct ucred other;
	socklen_t size = sizeof(other);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
	       (other.uid == geteuid() || other.uid == 0);
}

bool doorbell_open(struct doorbell_keeper *keeper, const struct doorbell *bell)
{
	struct sockaddr_un address;
	socklen_t length = make_address(bell, &address);
	int fd = open_socket(SOCK_NONBLOCK);
	int error;

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 &&
		listen(fd, DOORBELL_RINGERS) == 0) {
		keeper->fd = fd;
		return true;
	}
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return false;
}

bool doorbell_heed(struct doorbell_keeper *keeper)
{
	int ringer;

	while (keeper->fd >= 0 && keeper->count < DOORBELL_RINGERS &&
		(ringer = accept4(keeper->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (is_trusted(ringer))
			keeper->ringers[keeper->count++] = ringer;
		else
			close(ringer);
	}
	return keeper->count > 0;
}

void doorbell_close(struct doorbell_keeper *keeper)
{
	if (keeper->fd < 0)
		return;
	/* From here on nobody gets through, and who has is still there to be accepted. */
	shutdown(keeper->fd, SHUT_RDWR);
	doorbell_heed(keeper);
	close(keeper->fd);
	keeper->fd = -1;
}

void doorbell_answer(struct doorbell_keeper *keeper, int exit_code)
{
	uint8_t answer = (uint8_t)exit_code;

	for (; keeper->count > 0; keeper->count--)
		(void)!send(
			keeper->ringers[keeper->count - 1], &answer, sizeof(answer), MSG_NOSIGNAL);
}

int doorbell_ring(const struct doorbell *bell)
{
	struct sockaddr_un address;
	socklen_t length = make_address(bell, &address);
	struct timeval limit = {.tv_sec = ANSWER_WITHIN};
	int fd = open_socket(0);
	uint8_t answer;
	ssize_t got;

	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&address, length) < 0 || !is_trusted(fd)) {
		close(fd);
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	do
		got = recv(fd, &answer, sizeof(answer), 0);
	while (got < 0 && errno == EINTR);
	close(fd);
	return got == sizeof(answer) ? answer : -2;
}
