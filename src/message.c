#include "message.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "text.h"

#define LINE_SIZE 2048 /* below PIPE_BUF, so that a pipe takes a line as a whole */

#define STUCK_MS 50 /* what a line waits for a full pipe, or a terminal stopped by Ctrl-S */

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
	/* The socket is opened by the first line and is close-on-exec (glibc). */
	if (to_syslog)
		openlog("dlock", LOG_PID, LOG_USER);
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

static bool write_line(const char *line, size_t length)
{
	struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

	if (message.write)
		return message.write(line, length, message.context);
	/* Nobody who reads it no longer may keep a lock, or a wait, from ending; and the keeper
	 * says why it stops COMMAND just before it does, which must not come too late. */
	if (poll(&out, 1, STUCK_MS) == 0)
		return true;
	while (write(STDERR_FILENO, line, length) == -1 && errno == EINTR)
		;
	return true;
}

void message_say(enum message_level level, const char *format, ...)
{
	static const int priorities[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
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
	text_clean(text);
	length = strlen(line);
	line[length] = '\n';
	written = write_line(line, length + 1);
	line[length] = '\0';
	/* Last, as it may wait for a syslogd that hangs. */
	if (!written || message.to_syslog)
		syslog(priorities[level], "%s", text);
	errno = saved_errno;
}
