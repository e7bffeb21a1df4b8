/*
 * A second writer fills the pipe that is dlock's stderr, by LD_PRELOAD. It does so in the worst
 * moment: after poll(2) has said that there is room, and before the write(2) that leans on it.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void fill(void)
{
	static const char other[4096];
	int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	while (write(fd, other, sizeof(other)) > 0)
		continue;
	close(fd);
}

int poll(struct pollfd *fds, nfds_t count, int ms)
{
	struct timespec limit = {ms / 1000, ms % 1000 * 1000000L};
	long ready = syscall(SYS_ppoll, fds, count, ms < 0 ? NULL : &limit, NULL, 0);

	if (ready > 0 && count == 1 && fds[0].fd == STDERR_FILENO)
		fill();
	return (int)ready;
}
