#include "process/process.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/newer_libc.h"
#include "base/number.h"

#define FIRST_NAMESPACE UINT64_C(0xeffffffc) /* PROC_PID_INIT_INO, in the same place since 3.8 */

#define FORKED_NO_EXEC 0x40 /* PF_FORKNOEXEC of the kernel, in the same place since 2.4 */

/* Fields of /proc/PID/stat, counted from 1 (proc(5)). */
enum { STATE = 3, PARENT = 4, SESSION = 6, FLAGS = 9, THREADS = 20, START = 22, STATUS = 52 };

/* /proc as it was, by process_keep_proc; -1: as it is. */
static int kept = -1;

void process_keep_proc(void)
{
	if (kept < 0)
		kept = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A file of /proc, by a path that begins so. */
static int open_in_proc(const char *path, int flags)
{
	return kept < 0 ? open(path, flags) : openat(kept, path + strlen("/proc/"), flags);
}

int process_open_file(pid_t pid, const char *name, int flags)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%.20s", (int)pid, name);
	return open_in_proc(path, flags);
}

bool process_read_file(const char *path, char *text, size_t size)
{
	int fd = open_in_proc(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1); /* as a whole, or not at all */

	if (fd >= 0)
		close(fd);
	text[length < 0 ? 0 : length] = '\0';
	return length > 0;
}

/* Every run does this for itself, so without printf(3): see number.h. */
static bool read_file(pid_t pid, const char *name, char *text, size_t size)
{
	char path[48], *at;

	at = stpcpy(path, "/proc/");
	at = pid == 0 ? stpcpy(at, "self") : number_write(at, pid);
	stpcpy(stpcpy(at, "/"), name);
	return process_read_file(path, text, size);
}

/* Reads the state, and the fields from PARENT to `last`. */
static bool read_stat(pid_t pid, char *state, unsigned long long *fields, int last)
{
	char text[1024];
	char *at;

	if (!read_file(pid, "stat", text, sizeof(text)))
		return false;
	at = strrchr(text, ')'); /* the second field is the program's name and may hold anything */
	if (!at || strlen(at) < 4)
		return false;
	*state = at[2];
	at += 3;
	for (int field = PARENT; field <= last; field++)
		fields[field] = strtoull(at, &at, 10);
	return true;
}

bool process_is_zombie(pid_t pid, int *status)
{
	unsigned long long fields[STATUS + 1] = {0};
	char state;

	if (!read_stat(pid, &state, fields, STATUS) || state != 'Z' || fields[THREADS] > 1)
		return false;
	*status = (int)fields[STATUS];
	return true;
}

bool process_read(pid_t pid, struct process *process)
{
	unsigned long long fields[START + 1] = {0};

	if (!read_stat(pid, &process->state, fields, START))
		return false;
	process->parent = (pid_t)fields[PARENT];
	process->session = (pid_t)fields[SESSION];
	process->is_copy = (fields[FLAGS] & FORKED_NO_EXEC) != 0;
	process->start = fields[START];
	return true;
}

bool process_has_ended(int pidfd)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};

	return pidfd >= 0 && poll(&end, 1, 0) > 0;
}

/* Linux 4.1: the pids of this process from the namespace that is mounted down to its own. Before
 * them stand its groups, of which there may be 65536. */
static bool shows_one_pid(void)
{
	int fd = open_in_proc("/proc/self/status", O_RDONLY | O_CLOEXEC);
	FILE *status = fd < 0 ? NULL : fdopen(fd, "r");
	char *line = NULL, *end;
	size_t size = 0;
	bool one = false;

	while (status && !one && getline(&line, &size, status) > 0)
		one = strncmp(line, "NSpid:", 6) == 0 && strtol(line + 6, &end, 10) == getpid() &&
		      *end == '\n';
	free(line);
	if (status)
		fclose(status);
	else if (fd >= 0)
		close(fd);
	return one;
}

/* In the first namespace of all the link is enough, and takes a tenth of the time: no other can be
 * above it. Elsewhere a pid may by chance be the same above. */
bool process_sees_itself(void)
{
	char link[16];
	ssize_t length = readlink("/proc/self", link, sizeof(link) - 1);

	link[length < 0 ? 0 : length] = '\0';
	if (length <= 0 || strtol(link, NULL, 10) != getpid())
		return false;
	return process_namespace() == FIRST_NAMESPACE || shows_one_pid();
}

uint64_t process_namespace(void)
{
	static uint64_t known; /* a process never leaves its namespace (pid_namespaces(7)) */
	struct stat status;

	if (known == 0 && stat("/proc/self/ns/pid", &status) == 0)
		known = status.st_ino;
	return known;
}

void process_program(pid_t pid, char program[static PROCESS_PROGRAM])
{
	read_file(pid, "comm", program, PROCESS_PROGRAM);
	program[strcspn(program, "\n")] = '\0';
}

int process_reads_from(pid_t pid)
{
	char text[256];
	char *at;

	if (!read_file(pid, "syscall", text, sizeof(text)) || strtol(text, &at, 10) != SYS_read ||
		at == text)
		return -1;
	return (int)strtol(at, NULL, 16);
}

pid_t process_fork(const char *name)
{
	char own[PROCESS_PROGRAM] = "";
	pid_t pid;

	prctl(PR_GET_NAME, own);
	prctl(PR_SET_NAME, name);
	pid = fork();
	if (pid != 0)
		prctl(PR_SET_NAME, own);
	return pid;
}

char *process_variable(pid_t pid, const char *variable)
{
	size_t length = strlen(variable), size = 0;
	char *entry = NULL, *value = NULL;
	int fd = process_open_file(pid, "environ", O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

	if (fd >= 0 && !file)
		close(fd);
	while (file && !value && getdelim(&entry, &size, '\0', file) > 0)
		if (strncmp(entry, variable, length) == 0 && entry[length] == '=')
			value = strdup(entry + length + 1);
	free(entry);
	if (file)
		fclose(file);
	return value;
}

void process_each(void (*visit)(void *context, pid_t pid), void *context)
{
	int fd = open_in_proc("/proc/.", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		pid_t pid = (pid_t)atoi(entry->d_name);

		if (pid > 0)
			visit(context, pid);
	}
	if (dir)
		closedir(dir);
}

void process_each_listed(int list, void (*visit)(void *context, pid_t pid), void *context)
{
	char text[4096];
	pid_t pid = 0;
	ssize_t n;

	/* In pieces: a pid that a piece cuts in two is put together from both. */
	while ((n = read(list, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (isdigit((unsigned char)text[i])) {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 0)
				visit(context, pid);
			pid = 0;
		}
	}
}

static void each_child_of_thread(
	pid_t parent, const char *thread, void (*visit)(void *context, pid_t pid), void *context)
{
	char path[80];
	int list;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)parent, thread);
	list = open_in_proc(path, O_RDONLY | O_CLOEXEC);
	if (list < 0)
		return;
	process_each_listed(list, visit, context);
	close(list);
}

/* Each thread has its own list (proc(5), since Linux 3.5). getdents64 rather than readdir, which
 * allocates. */
void process_each_child(pid_t parent, void (*visit)(void *context, pid_t pid), void *context)
{
	_Alignas(struct dirent64) char entries[2048];
	ssize_t n;
	int fd = process_open_file(parent, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	while ((n = getdents64(fd, entries, sizeof(entries))) > 0) {
		const struct dirent64 *entry;

		for (ssize_t at = 0; at < n; at += entry->d_reclen) {
			entry = (const void *)(entries + at);
			if (isdigit((unsigned char)entry->d_name[0]))
				each_child_of_thread(parent, entry->d_name, visit, context);
		}
	}
	close(fd);
}
