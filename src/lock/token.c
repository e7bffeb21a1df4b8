#include "lock/token.h"

#include <bsd/string.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/number.h"

#define LINE_SIZE 512

const char *token_fault(const char *token)
{
	if (*token == '\0')
		return "is empty";
	for (const char *at = token; *at != '\0'; at++)
		if (isspace((unsigned char)*at) || iscntrl((unsigned char)*at))
			return "holds a blank, and what follows is no fencing token";
	return strlen(token) < LOCK_TOKEN_SIZE ? NULL : "is too long";
}

bool token_is_among(const char *tokens, const char *token)
{
	size_t length = strlen(token);

	for (const char *at = tokens; length > 0 && (at = strstr(at, token)) != NULL; at++)
		if ((at == tokens || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
			return true;
	return false;
}

void token_make(const struct owner *self, char token[static LOCK_TOKEN_SIZE])
{
	uint64_t random[2];
	char *at;

	/* Not libbsd's arc4random: it costs two mappings and a handler of fork(2). */
	while (getrandom(random, sizeof(random), 0) < 0 && errno == EINTR)
		continue;
	at = stpcpy(stpcpy(token, self->host), ":");
	at = stpcpy(number_write(at, self->pid), ":");
	number_write_hex(number_write_hex(at, random[0]), random[1]);
}

void token_begin(const struct lock_request *request, char token[static LOCK_TOKEN_SIZE])
{
	if (request->token)
		strlcpy(token, request->token, LOCK_TOKEN_SIZE);
	else
		token_make(request->self, token);
}

void token_refuse(bool attended, struct failure *failure)
{
	failure_set(failure, EXIT_BUSY, "%s",
		attended ? "the token is that of a holder that still runs and releases the lock "
			   "itself; --force releases it all the same"
			 : "not held with this token: it is wrong, or has expired");
}

/* As much of the first line as fits; -1 with errno. */
static ssize_t read_line(int fd, char line[static LINE_SIZE])
{
	size_t length = 0;

	while (length < LINE_SIZE - 1) {
		ssize_t got = read(fd, line + length, LINE_SIZE - 1 - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		length += (size_t)got;
		if (got == 0 || memchr(line, '\n', length))
			break;
	}
	line[length] = '\0';
	return (ssize_t)length;
}

bool token_read(int fd, char token[static LOCK_TOKEN_SIZE], struct failure *failure)
{
	char line[LINE_SIZE];
	const char *fault;

	if (read_line(fd, line) < 0)
		return failure_set(failure, EXIT_SYSTEM, "cannot read the token: %m");
	line[strcspn(line, " \t\r\n")] = '\0';
	fault = token_fault(line);
	if (fault)
		return failure_set(failure, EXIT_USAGE, "the TOKEN on standard input %s", fault);
	strcpy(token, line);
	return true;
}
