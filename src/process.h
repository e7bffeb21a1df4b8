/* One process, as /proc/PID/stat shows it. Nothing here allocates or waits. */
#ifndef DLOCK_PROCESS_H
#define DLOCK_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t parent, session;
	char state;     /* as ps(1) shows it: R, S, D, T, Z ... */
	bool is_copy;   /* it was forked and has not called exec since: a subshell */
	uint64_t start; /* in clock ticks after boot: with the pid it names the process for good */
};

/* False: there is none. One whose first thread has ended is shown as a zombie, though others may
 * live on. */
bool process_read(pid_t pid, struct process *process);

#define PROCESS_PROGRAM 64 /* TASK_COMM_LEN is 16, but kernel threads have more */

/* What its program is called (/proc/PID/comm); "" where that cannot be read. */
void process_program(pid_t pid, char program[static PROCESS_PROGRAM]);

/* The descriptor that it waits to read(2) from (/proc/PID/syscall); -1: none, or it is not for us
 * to know: only who might trace it may (Yama). */
int process_reads_from(pid_t pid);

#endif
