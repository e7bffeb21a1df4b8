#include "commands/fence_file.h"

#include <bsd/stdlib.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"

#define FIELD_SIZE  19 /* digits of INT64_MAX */
#define RECORD_SIZE (2 * FIELD_SIZE + 2)
#define RECORD_TEXT "%19" PRId64 " %19" PRId64 "\n"

#define FD_LEAST 10 /* below it are those that sh scripts can name */

/* Right-aligned, no sign, no zero in front; 0: it is none. */
static int64_t read_field(const char *field)
{
	char text[FIELD_SIZE + 1] = "";
	const char *fault;

	memcpy(text, field, FIELD_SIZE);

	const char *digits = text + strspn(text, " ");
	size_t length = strspn(digits, "0123456789");

	if (length == 0 || digits + length != text + FIELD_SIZE || *digits == '0')
		return 0;
	return strtonum(digits, 1, INT64_MAX, &fault);
}

/* The token of a whole record; 0: torn, or something else. */
static int64_t read_record(const char *record)
{
	int64_t token = read_field(record);
	bool whole = record[FIELD_SIZE] == ' ' && record[RECORD_SIZE - 1] == '\n' &&
		     read_field(record + FIELD_SIZE + 1) == token;

	return whole ? token : 0;
}

static bool refuse(const struct fence_file *file, const char *what, struct failure *failure)
{
	return failure_set(
		failure, EXIT_SYSTEM, "cannot %s '%s': %s", what, file->path, strerror(errno));
}

static bool refuse_type(const struct fence_file *file, const char *what, struct failure *failure)
{
	return failure_set(failure, EXIT_USAGE,
		"'%s' is %s; a fencing token is kept in a regular file", file->path, what);
}

/* O_CREAT even if the file exists: fs.protected_regular (since Linux 4.19) then refuses files that
 * another user put into a folder such as /tmp. A FIFO does not block with O_RDWR. */
static bool open_file(struct fence_file *file, struct failure *failure)
{
	struct stat st;

	file->fd = open(file->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0666);
	if (file->fd < 0 && errno == EISDIR)
		return refuse_type(file, "a directory", failure);
	if (file->fd < 0 && errno == ELOOP)
		return refuse_type(file, "a symbolic link, which is not followed", failure);
	if (file->fd < 0 && errno == ENXIO)
		return refuse_type(file, "a socket or a device", failure);
	if (file->fd < 0)
		return refuse(file, "open", failure);
	if (fstat(file->fd, &st) == 0 && S_ISREG(st.st_mode))
		return true;
	close(file->fd);
	return refuse_type(file, "a FIFO or a device", failure);
}

/* Out of the way of COMMAND, which may get it too. */
static void move_up(struct fence_file *file)
{
	int fd = fcntl(file->fd, F_DUPFD_CLOEXEC, FD_LEAST);

	if (fd < 0)
		return; /* RLIMIT_NOFILE: as it is, then */
	close(file->fd);
	file->fd = fd;
}

/* Whether the path still leads to the file. A guard may have waited for the flock of a file that
 * was removed or renamed meanwhile. No other guard would read what it puts there. */
static bool is_in_place(const struct fence_file *file)
{
	struct stat ours, there;

	return fstat(file->fd, &ours) == 0 && lstat(file->path, &there) == 0 &&
	       ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static bool lock_file(struct fence_file *file, struct failure *failure)
{
	for (;;) {
		if (!open_file(file, failure))
			return false;
		while (flock(file->fd, LOCK_EX) < 0) {
			if (errno == EINTR)
				continue;
			refuse(file, "lock", failure);
			close(file->fd);
			return false;
		}
		if (is_in_place(file))
			return true;
		close(file->fd);
	}
}

static bool read_file(struct fence_file *file, struct failure *failure)
{
	char record[RECORD_SIZE + 1];
	ssize_t length = pread(file->fd, record, sizeof(record), 0);

	if (length < 0)
		return refuse(file, "read", failure);
	file->token = length == RECORD_SIZE ? read_record(record) : 0;
	if (length == 0 || file->token > 0)
		return true;
	return failure_set(failure, EXIT_USAGE,
		"'%s' holds something else than a fencing token, and was left as it is",
		file->path);
}

bool fence_file_open(struct fence_file *file, const char *path, struct failure *failure)
{
	*file = (struct fence_file){.path = path, .fd = -1};
	if (!lock_file(file, failure))
		return false;
	move_up(file);
	if (read_file(file, failure))
		return true;
	close(file->fd);
	return false;
}

/* A new file is there for good only when its directory has been synced (fsync(2)). It is synced
 * before the first record, so that a file with a record never needs it. */
static bool sync_directory(const struct fence_file *file, struct failure *failure)
{
	const char *slash = strrchr(file->path, '/');
	char *directory =
		slash ? strndup(file->path, (size_t)(slash - file->path) + 1) : strdup(".");
	int fd = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	bool synced = fd >= 0 && fsync(fd) == 0;

	if (!synced)
		refuse(file, "sync the directory of", failure);
	if (fd >= 0)
		close(fd);
	free(directory);
	return synced;
}

/* After a record that went in only in part: a quota, or RLIMIT_FSIZE. A fence that was taken a
 * moment ago is taken again. */
static void undo(const struct fence_file *file, const char *old, size_t length)
{
	if (file->token == 0)
		(void)!ftruncate(file->fd, 0);
	else
		(void)!pwrite(file->fd, old, length, 0);
}

static bool write_record(struct fence_file *file, int64_t token, struct failure *failure)
{
	char old[RECORD_SIZE + 1], new[RECORD_SIZE + 1];
	struct sigaction ignore = {.sa_handler = SIG_IGN}, before;

	snprintf(old, sizeof(old), RECORD_TEXT, file->token, file->token);
	snprintf(new, sizeof(new), RECORD_TEXT, token, token);
	sigaction(SIGXFSZ, &ignore, &before); /* EFBIG will do */

	ssize_t length = pwrite(file->fd, new, RECORD_SIZE, 0);
	int error = length < 0 ? errno : ENOSPC;

	if (length > 0 && length < RECORD_SIZE)
		undo(file, old, (size_t)length);
	sigaction(SIGXFSZ, &before, NULL);
	if (length == RECORD_SIZE)
		return true;
	errno = error;
	return refuse(file, "write", failure);
}

bool fence_file_record(struct fence_file *file, int64_t token, struct failure *failure)
{
	if (token < file->token)
		return failure_set(failure, EXIT_STALE,
			"the fencing token %" PRId64 " is stale: '%s' has seen %" PRId64, token,
			file->path, file->token);
	if (file->token == 0 && !sync_directory(file, failure))
		return false;
	if (token > file->token && !write_record(file, token, failure))
		return false;
	file->token = token;
	return fsync(file->fd) == 0 || refuse(file, "sync", failure);
}

void fence_file_close(struct fence_file *file)
{
	flock(file->fd, LOCK_UN);
	close(file->fd);
	file->fd = -1;
}
