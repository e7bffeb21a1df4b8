#include "hold/caller.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/newer_libc.h"
#include "base/unstuck.h"
#include "process/process.h"

#define LINK_SIZE   64  /* a longer one is no pipe */
#define DEPTH_MOST  64  /* subshells within each other */
#define ASLEEP_LONG 300 /* looks, 1 ms apart */
#define LOOKS_MOST  2000
#define STDERR_LENT (-2) /* a thread writes to what was kept, and gives it back */

/* The text that /proc has of a descriptor: "pipe:[INODE]". Not stat(2), which a file system may
 * keep. */
static bool look_at(pid_t pid, const char *fd, char what[static LINK_SIZE])
{
	char path[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid, fd);
	length = readlink(path, what, LINK_SIZE - 1);
	what[length < 0 ? 0 : length] = '\0';
	return strncmp(what, "pipe:", 5) == 0;
}

static bool has(pid_t pid, const char *fd, const char *pipe)
{
	char what[LINK_SIZE];

	return look_at(pid, fd, what) && strcmp(what, pipe) == 0;
}

/* Whether the process has the pipe open for reading, other than as its standard input. The last
 * part of a pipeline has it as that, if the shell itself runs that part (zsh, lastpipe). */
static bool reads(pid_t pid, const char *pipe)
{
	const struct dirent *entry;
	struct stat link;
	char path[48];
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir)) != NULL)
		/* The link's own mode tells what the descriptor was opened for (proc(5)). */
		found = strcmp(entry->d_name, "0") != 0 && has(pid, entry->d_name, pipe) &&
			fstatat(dirfd(dir), entry->d_name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
			(link.st_mode & S_IRUSR) != 0;
	if (dir)
		closedir(dir);
	return found;
}

static bool is_reading(pid_t pid, const char *pipe)
{
	int fd = process_reads_from(pid);
	char text[16];

	snprintf(text, sizeof(text), "%d", fd);
	return fd > 0 && has(pid, text, pipe);
}

/* A shell that is just building a pipeline has the pipe as well, and closes it presently. Meanwhile
 * it may sleep, until the next part is there (zsh). So it has to be seen reading. If that cannot be
 * seen (we may not look, or it waits for another process that reads), it has to sleep with the pipe
 * open for long. */
static bool waits_for(pid_t shell, const char *pipe)
{
	struct process process;
	int asleep = 0;

	for (int i = 0; i < LOOKS_MOST && asleep < ASLEEP_LONG && reads(shell, pipe); i++) {
		if (is_reading(shell, pipe))
			return true;
		asleep = process_read(shell, &process) && process.state == 'S' ? asleep + 1 : 0;
		poll(NULL, 0, 1);
	}
	return reads(shell, pipe);
}

/* The process above all subshells that print to the pipe, of which `parent` is one; 0: it is none.
 */
static pid_t find_above(pid_t parent, const char *pipe)
{
	struct process process;
	pid_t pid = parent;

	for (int depth = 0; depth < DEPTH_MOST && has(pid, "1", pipe); depth++) {
		if (!process_read(pid, &process) || !process.is_copy)
			break;
		pid = process.parent;
	}
	return pid != parent ? pid : 0;
}

/*
 * The shell that reads what `parent` prints, if `parent` is one of its subshells; 0: there is no
 * reader, or it is no such shell. It is not enough that a process has another stdout: under cron or
 * in CI that is cron or the runner, which must not be stopped when the lock is lost.
 */
static pid_t find_reader(pid_t parent)
{
	char pipe[LINK_SIZE];
	pid_t pid;

	if (!look_at(parent, "1", pipe))
		return 0;
	pid = find_above(parent, pipe);
	return pid > 0 && waits_for(pid, pipe) ? pid : 0;
}

bool caller_open(struct caller *caller, pid_t pid, struct failure *failure)
{
	struct process process;

	caller->pid = pid;
	caller->stderr_fd = -1;
	caller->fd = pidfd_open(pid, 0);
	if (caller->fd < 0 && errno != ESRCH && errno != EINVAL)
		return failure_set(failure, EXIT_SYSTEM, "cannot watch over process %d: %s",
			(int)pid, strerror(errno));
	/* pidfd first: what was read after it, while it lives, is of the same process. */
	if (caller->fd < 0 || !process_read(pid, &process) || process_has_ended(caller->fd))
		return failure_set(failure, EXIT_USAGE,
			"there is no process %d, which was to hold the lock", (int)pid);
	caller->start = process.start;
	/* The first process of a container ignores what comes from inside it, SIGKILL too; and when
	 * it ends there is nobody left to release the lock. */
	if (pid == 1 || pidfd_send_signal(caller->fd, 0, NULL, 0) < 0)
		return failure_set(failure, EXIT_USAGE,
			"process %d could not be stopped when the lock is lost", (int)pid);
	return true;
}

static bool is_above(pid_t pid, pid_t parent)
{
	char pipe[LINK_SIZE];

	return look_at(parent, "1", pipe) && find_above(parent, pipe) == pid;
}

/* In a child of ours: leaves an orphan that writes which process its parent is then. */
static _Noreturn void leave_orphan(int answer)
{
	pid_t parent = getpid(), child = fork(), found;

	if (child > 0)
		_exit(0);
	while ((found = child < 0 ? -errno : getppid()) == parent)
		poll(NULL, 0, 1);
	(void)!write(answer, &found, sizeof(found));
	_exit(0);
}

/* The process that adopts what loses its parent down here: the nearest subreaper above us. /proc
 * does not tell which that is, so it is tried. Below 0: the error, negated, that kept it from that.
 */
static pid_t find_reaper(void)
{
	pid_t child, reaper = -EAGAIN;
	int ends[2];

	prctl(PR_SET_CHILD_SUBREAPER, 0); /* exec has kept it, if our caller had us be one */
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -errno;
	child = fork();
	if (child == 0)
		leave_orphan(ends[1]);
	if (child < 0)
		reaper = -errno;
	close(ends[1]);
	if (child > 0)
		waitpid(child, NULL, 0);
	(void)!read(ends[0], &reaper, sizeof(reaper));
	close(ends[0]);
	return reaper;
}

/* Whether each process from our parent up to `caller` has forked the one below it. Only a subreaper
 * adopts; and it is no caller then: ours has ended. */
static bool none_adopts(pid_t reaper, pid_t parent, pid_t caller)
{
	struct process process;
	pid_t pid = parent;

	for (int depth = 0; depth < DEPTH_MOST && pid > 0; depth++) {
		if (pid == reaper || !process_read(pid, &process))
			return false;
		if (pid == caller)
			return true;
		pid = process.parent;
	}
	return false;
}

/* A process of another session has adopted us. A dlock is no caller either: we would be its
 * COMMAND, and it waits for what we leave behind. */
static bool may_be_caller(pid_t pid)
{
	char program[PROCESS_PROGRAM], own[PROCESS_PROGRAM];
	struct process process;

	process_program(pid, program);
	process_program(getpid(), own);
	return process_read(pid, &process) && process.session == getsid(0) &&
	       strcmp(program, own) != 0;
}

bool caller_find(struct caller *caller, struct failure *failure)
{
	pid_t parent = getppid();
	pid_t reader = find_reader(parent);
	pid_t pid = reader != 0 ? reader : parent;
	pid_t reaper;

	if (may_be_caller(pid)) {
		if (!caller_open(caller, pid, failure))
			return false;
		reaper = find_reaper();
		if (reaper < 0)
			return failure_set(
				failure, EXIT_SYSTEM, "cannot fork: %s", strerror(-reaper));
		/* Our living parent has been there all the while, and so has the shell above it. */
		if (none_adopts(reaper, parent, pid) && getppid() == parent &&
			(reader == 0 || is_above(reader, parent)))
			return true;
	}
	return failure_set(failure, EXIT_USAGE,
		"cannot tell which process is to hold the lock: name it by --pid");
}

/* A file's offset must be the caller's own, or the caller would write over our line; and a socket
 * cannot be opened anew. For these two the caller's descriptor is copied (Linux 5.6), if we might
 * trace it. All else is opened anew, so that it never makes us wait. */
static int open_stderr(const struct caller *caller)
{
	int fd = pidfd_getfd(caller->fd, STDERR_FILENO, 0);
	struct stat status;

	if (fd >= 0 && fstat(fd, &status) == 0 &&
		(S_ISREG(status.st_mode) || S_ISSOCK(status.st_mode)))
		return fd;
	if (fd >= 0)
		close(fd);
	fd = process_open_file(
		caller->pid, "fd/2", O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0 && process_has_ended(caller->fd)) { /* so it may be that of a later process */
		close(fd);
		fd = -1;
	}
	return fd;
}

static void keep(struct caller *caller, int fd)
{
	int before = atomic_exchange(&caller->stderr_fd, fd);

	if (before >= 0)
		close(before);
}

void caller_keep_stderr(struct caller *caller)
{
	keep(caller, open_stderr(caller));
}

void caller_drop_stderr(struct caller *caller)
{
	keep(caller, -1);
}

static bool tell(int fd, const char *line, size_t length)
{
	struct stat status;

	if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode))
		return unstuck_send(fd, line, length);
	return write(fd, line, length) == (ssize_t)length;
}

bool caller_report(const char *line, size_t length, void *context)
{
	struct caller *caller = context;
	int kept = atomic_exchange(&caller->stderr_fd, STDERR_LENT), lent = STDERR_LENT;
	int fd = kept >= 0 ? kept : open_stderr(caller);
	bool told = fd >= 0 && tell(fd, line, length);

	if (fd >= 0 && fd != kept)
		close(fd);
	/* Another thread that writes gives it back itself; or it was dropped meanwhile. */
	if (kept != STDERR_LENT &&
		!atomic_compare_exchange_strong(&caller->stderr_fd, &lent, kept) && kept >= 0)
		close(kept);
	return told;
}
