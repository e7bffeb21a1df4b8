#include "process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FORKED_NO_EXEC 0x40 /* PF_FORKNOEXEC of the kernel, in the same place since 2.4 */

/* Fields of /proc/PID/stat, counted from 1 (proc(5)). */
enum { STATE = 3, PARENT = 4, SESSION = 6, FLAGS = 9, START = 22 };

static bool read_file(pid_t pid, const char *name, char *text, size_t size)
{
	char path[48];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? -1 : read(fd, text, size - 1); /* as a whole, or not at all */
	if (fd >= 0)
		close(fd);
	text[length < 0 ? 0 : length] = '\0';
	return length > 0;
}

bool process_read(pid_t pid, struct process *process)
{
	unsigned long long fields[START + 1] = {0};
	char text[1024];
	char *at;

	if (!read_file(pid, "stat", text, sizeof(text)))
		return false;
	at = strrchr(text, ')'); /* the second field is the program's name and may hold anything */
	if (!at || strlen(at) < 4)
		return false;
	process->state = at[2];
	at += 3;
	for (int field = PARENT; field <= START; field++)
		fields[field] = strtoull(at, &at, 10);
	process->parent = (pid_t)fields[PARENT];
	process->session = (pid_t)fields[SESSION];
	process->is_copy = (fields[FLAGS] & FORKED_NO_EXEC) != 0;
	process->start = fields[START];
	return true;
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
