#include "base/system_log.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/unstuck.h"

#define LINE_SIZE 2200 /* a message and what stands before it */

static int open_log(int type)
{
	static const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = _PATH_LOG};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

void system_log_send(int level, const char *text)
{
	static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
	int fd = open_log(SOCK_DGRAM);
	bool stream = fd < 0 && errno == EPROTOTYPE; /* a daemon may listen for streams instead */
	time_t now = time(NULL);
	char line[LINE_SIZE], when[32] = "";
	struct tm local;
	int length;

	if (stream)
		fd = open_log(SOCK_STREAM);
	if (fd < 0)
		return;
	if (localtime_r(&now, &local))
		strftime(when, sizeof(when), "%h %e %T", &local);
	length = snprintf(line, sizeof(line), "<%d>%s dlock[%d]: %s", LOG_USER | priorities[level],
		when, (int)getpid(), text);
	if (length >= (int)sizeof(line))
		length = (int)sizeof(line) - 1;
	/* In a stream the NUL ends a line. */
	unstuck_send(fd, line, (size_t)length + (stream ? 1 : 0));
	close(fd);
}
