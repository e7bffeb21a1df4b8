#include "base/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/system_log.h"
#include "base/unstuck.h"
#include "base/utf8.h"

#define LINE_SIZE 2048 /* below PIPE_BUF, so that a pipe takes a line as a whole */

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
		system_log_send((int)level, text);
	errno = saved_errno;
}

int message_failure(const struct failure *failure)
{
	message_say(MESSAGE_ERROR, "%s", failure->text);
	return (int)failure->code;
}
