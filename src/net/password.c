#include "net/password.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"

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

char *password_read(const char *file, struct failure *failure)
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

void password_forget(char *password)
{
	if (password)
		explicit_bzero(password, strlen(password));
	free(password);
}
