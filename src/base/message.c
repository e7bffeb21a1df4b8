#include "base/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/unstuck.h"
#include "base/utf8.h"

#define LINE_SIZE 2048 /* below PIPE_BUF, so that a pipe takes a line as a whole */
#define LOG_SIZE  2200 /* a message and what stands before it */

/* Written once, before there is a second process or thread. */
static struct {
	int level;
	bool to_syslog;
	const char *name;
	bool (*write)(const char *line, size_t length, void *context);
	void *context;
} message = {.level = MESSAGE_WARNING};

void message_open(int level, bool to_syslog)
{
	message.level = level;
	message.to_syslog = to_syslog;
}

void message_name(const char *name)
{
	message.name = name;
}

void message_divert(bool (*write)(const char *line, size_t length, void *context), void *context)
{
	message.write = write;
	message.context = context;
}

bool message_shows(enum message_level level)
{
	return (int)level <= message.level;
}

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

/* One line to the system log. Not syslog(3): that waits as long as a daemon that hangs does not
 * read (send(2) without MSG_DONTWAIT), and what is said here is said by processes that must stop
 * COMMAND in time. The form is that of syslog(3): RFC 3164, 4.1, without the host's name. Keeps
 * nothing open. */
static void log_line(int level, const char *text)
{
	static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
	int fd = open_log(SOCK_DGRAM);
	bool stream = fd < 0 && errno == EPROTOTYPE; /* a daemon may listen for streams instead */
	time_t now = time(NULL);
	char line[LOG_SIZE], when[32] = "";
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

static bool write_line(const char *line, size_t length)
{
	if (message.write)
		return message.write(line, length, message.context);
	unstuck_write(STDERR_FILENO, "/proc/self/fd/2", line, length);
	return true;
}

void message_say(enum message_level level, const char *format, ...)
{
	static const char own[] = "dlock: ";
	char line[LINE_SIZE];
	char *text = line + sizeof(own) - 1;
	size_t room = LINE_SIZE - sizeof(own); /* leaves one byte for the newline */
	size_t length;
	bool written;
	int used = 0;
	int saved_errno = errno;
	va_list arguments;

	if (!message_shows(level))
		return;
	memcpy(line, own, sizeof(own));
	if (message.name != NULL)
		used = snprintf(text, room, "%.1024s: ", message.name);
	va_start(arguments, format);
	vsnprintf(text + used, room - (size_t)used, format, arguments);
	va_end(arguments);
	utf8_clean(text);
	length = strlen(line);
	line[length] = '\n';
	written = write_line(line, length + 1);
	line[length] = '\0';
	if (!written || message.to_syslog)
		log_line((int)level, text);
	errno = saved_errno;
}

int message_failure(const struct failure *failure)
{
	message_say(MESSAGE_ERROR, "%s", failure->text);
	return (int)failure->code;
}
