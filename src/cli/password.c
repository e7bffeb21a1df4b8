#include "cli/password.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "lock/service.h"
#include "net/server.h"

#define PASSWORD_MOST 1024 /* bytes of the first line */

static bool check_file(int fd, const char *file, struct failure *failure)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return failure_set(failure, EXIT_CONFIG, "password-file %s: %m", file);
	if (!S_ISREG(status.st_mode))
		return failure_set(failure, EXIT_CONFIG, "password-file %s: no regular file", file);
	/* A group may be meant to share it: 0640 root:dlock. */
	if ((status.st_mode & S_IRWXO) != 0)
		return failure_set(failure, EXIT_CONFIG,
			"password-file %s: not used, because any user may read or change it (mode "
			"%04o)",
			file, (unsigned)status.st_mode & 07777);
	return true;
}

/* The first line, without its end. */
static char *read_first_line(int fd, const char *file, struct failure *failure)
{
	char line[PASSWORD_MOST + 1];
	char *password = NULL;
	ssize_t size = read(fd, line, sizeof(line));
	size_t length = 0;

	if (size == -1) {
		failure_set(failure, EXIT_CONFIG, "password-file %s: %m", file);
		return NULL;
	}
	while (length < (size_t)size && strchr("\r\n", line[length]) == NULL)
		length++;
	if (length == 0 || length > PASSWORD_MOST ||
		(length < (size_t)size && line[length] == '\0'))
		failure_set(failure, EXIT_CONFIG, "password-file %s: its first line is no password",
			file);
	else if ((password = strndup(line, length)) == NULL)
		failure_set(failure, EXIT_SYSTEM, "out of memory");
	explicit_bzero(line, sizeof(line));
	return password;
}

static char *read_file(const char *file, struct failure *failure)
{
	/* Not blocking: it might be a FIFO. */
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *password = NULL;

	if (fd == -1) {
		failure_set(failure, EXIT_CONFIG, "password-file %s: %m", file);
		return NULL;
	}
	if (check_file(fd, file, failure))
		password = read_first_line(fd, file, failure);
	close(fd);
	return password;
}

char *password_find(const struct server *server, const char *file, struct failure *failure)
{
	const char *variables[] = {"DLOCK_PASSWORD", server->service->password_variable};

	failure->code = EXIT_DONE;
	if (!variables[1])
		return NULL;
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		const char *value = getenv(variables[i]);
		char *password;

		if (value == NULL || *value == '\0')
			continue;
		password = strdup(value);
		if (password == NULL)
			failure_set(failure, EXIT_SYSTEM, "out of memory");
		return password;
	}
	return file == NULL ? NULL : read_file(file, failure);
}

void password_guard(const struct server *server)
{
	struct rlimit none = {0, 0};

	if (server->password != NULL)
		setrlimit(RLIMIT_CORE, &none);
}
