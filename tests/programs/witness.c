/*
 * A COMMAND that testifies what it was given.
 *
 *   witness record FILE   writes what a process inherits, one "name value" a line, and ends
 *   witness count FILE    "ready", then one line "NAME SENDER" for each signal it receives,
 *                         SENDER being a process id, 0 for the kernel; SIGRTMIN ends it with 0
 *   witness exit N        ends with N
 *   witness kill N        ends itself by signal N, whatever was blocked or ignored
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/newer_libc.h"

extern char **environ;

#define DESCRIPTORS_MOST 4096

static char record[1 << 20];
static size_t record_length;

#define record_add(...)                                                                            \
	(record_length += (size_t)snprintf(                                                        \
		 record + record_length, sizeof(record) - record_length, __VA_ARGS__))

static _Noreturn void die(const char *what)
{
	dprintf(STDERR_FILENO, "witness: %s: %s\n", what, strerror(errno));
	_exit(125);
}

/* By readlink alone: to open anything would change what is to be seen. */
static void record_descriptors(void)
{
	char path[64], target[4096];

	for (int fd = 0; fd < DESCRIPTORS_MOST; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t length = readlink(path, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		record_add("fd%d %s flags=%x status=%x\n", fd, target, (unsigned)fcntl(fd, F_GETFD),
			(unsigned)fcntl(fd, F_GETFL));
	}
}

/* The lines of the file that begin with one of `wanted`, which ends with NULL. */
static void record_lines(const char *path, const char *const wanted[])
{
	char line[8192];
	FILE *file = fopen(path, "r");

	if (file == NULL)
		die(path);
	while (fgets(line, sizeof(line), file) != NULL)
		for (size_t i = 0; wanted[i] != NULL; i++)
			if (strncmp(line, wanted[i], strlen(wanted[i])) == 0)
				record_add("%s", line);
	fclose(file);
}

static void record_status(void)
{
	static const char *const wanted[] = {"SigPnd:", "ShdPnd:", "SigBlk:", "SigIgn:", "SigCgt:",
		"Umask:", "Uid:", "Gid:", "Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:",
		"CapAmb:", "NoNewPrivs:", "Seccomp:", "Threads:", "Cpus_allowed:", NULL};

	record_lines("/proc/self/status", wanted);
}

/* A kernel may have been built without this file; se.slice is there from Linux 6.12 on. */
static void record_scheduling(void)
{
	static const char *const wanted[] = {"policy ", "prio ", "se.slice ", NULL};

	if (access("/proc/self/sched", R_OK) == 0)
		record_lines("/proc/self/sched", wanted);
}

static void record_limits(void)
{
	struct rlimit limit;

	for (int i = 0; i < RLIM_NLIMITS; i++)
		if (getrlimit((__rlimit_resource_t)i, &limit) == 0)
			record_add("limit%d %llu %llu\n", i, (unsigned long long)limit.rlim_cur,
				(unsigned long long)limit.rlim_max);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void record_environment(void)
{
	size_t count = 0;

	while (environ[count] != NULL)
		count++;
	qsort(environ, count, sizeof(*environ), by_text);
	for (size_t i = 0; i < count; i++)
		record_add("env %s\n", environ[i]);
}

static void record_save(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, record, record_length) != (ssize_t)record_length || close(fd) != 0)
		die(path);
}

static int command_record(const char *path)
{
	char directory[4096];

	record_descriptors();
	record_status();
	record_scheduling();
	record_limits();
	record_add("pid %d\nparent %d\ngroup %d\nsession %d\n", (int)getpid(), (int)getppid(),
		(int)getpgrp(), (int)getsid(0));
	record_add("nice %d\n", getpriority(PRIO_PROCESS, 0));
	record_add("directory %s\n", getcwd(directory, sizeof(directory)));
	record_environment();
	record_save(path);
	return 0;
}

static int command_count(const char *path)
{
	sigset_t all;
	siginfo_t info;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		die(path);
	dprintf(fd, "ready %d\n", (int)getpid());
	for (;;) {
		int number = sigwaitinfo(&all, &info);
		if (number == SIGRTMIN)
			return 0;
		if (number > 0) {
			const char *name = sigabbrev_np(number);
			dprintf(fd, "%s %d\n", name != NULL ? name : "?",
				info.si_code == SI_KERNEL ? 0 : (int)info.si_pid);
		}
	}
}

static int command_kill(int number)
{
	struct rlimit none = {0, 0};
	sigset_t empty;

	setrlimit(RLIMIT_CORE, &none);
	signal(number, SIG_DFL);
	sigemptyset(&empty);
	sigprocmask(SIG_SETMASK, &empty, NULL);
	kill(getpid(), number);
	return 125;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		dprintf(STDERR_FILENO, "witness: record FILE | count FILE | exit N | kill N\n");
		return 125;
	}
	if (strcmp(argv[1], "record") == 0)
		return command_record(argv[2]);
	if (strcmp(argv[1], "count") == 0)
		return command_count(argv[2]);
	if (strcmp(argv[1], "exit") == 0)
		return atoi(argv[2]);
	return command_kill(atoi(argv[2]));
}
