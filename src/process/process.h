/* One process, as /proc/PID/stat shows it. Nothing here waits. A function that allocates says so.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t parent, session;
	char state;     /* as ps(1) shows it: R, S, D, T, Z ... */
	bool is_copy;   /* the process was forked and has not called exec since: a subshell */
	uint64_t start; /* in clock ticks after boot: with the pid it names the process for good, in
			   its PID namespace */
};

/* pid 0: this process, even if /proc shows another PID namespace. False: there is none. A process
 * of which the first thread has ended is shown as a zombie, though others may live on. */
bool process_read(pid_t pid, struct process *process);

/* Whether all of the process has ended, but nobody has reaped it yet; then *status is as from
 * waitpid(2), or 0 if we may not know. */
bool process_is_zombie(pid_t pid, int *status);

/* From now on this process sees the /proc of this moment, whatever is mounted over it: what it
 * watches may hide that. For a process that closes all its descriptors later it is nothing. */
void process_keep_proc(void);

/* Opens a file of the process's folder in /proc, by its name there; -1 with errno. */
int process_open_file(pid_t pid, const char *name, int flags);

/* Reads a small file of /proc, by a path that begins so, or as much as fits. False, and text is "",
 * if that cannot be done.
 */
bool process_read_file(const char *path, char *text, size_t size);

/* Whether the process of a pidfd has ended; -1: false. */
bool process_has_ended(int pidfd);

/* As fork(2); from its first moment on the child is called `name`. So an outer dlock that finds it
 * once we have ended knows that COMMAND did not leave it running (survivors.h). */
pid_t process_fork(const char *name);

/* The variable in the environment that the process was started with, to be freed; NULL: it has none
 * of that name, or we may not read it. */
char *process_variable(pid_t pid, const char *variable);

/* Every process that /proc shows, in no particular order. Allocates. */
void process_each(void (*visit)(void *context, pid_t pid), void *context);

/* The children of a process: what each of its threads has forked or adopted. */
void process_each_child(pid_t parent, void (*visit)(void *context, pid_t pid), void *context);

/* The children in a list that is open, /proc/PID/task/TID/children, from where it is read on. */
void process_each_listed(int list, void (*visit)(void *context, pid_t pid), void *context);

/* Whether /proc shows the PID namespace that this process is in. If not, the pids there are not
 * those that kill(2) takes. False, too, if nothing is mounted there. */
bool process_sees_itself(void);

/* The PID namespace that our pid counts in; 0: not known, which is no namespace at all. Two
 * sandboxes with one host name and one boot have the same pids; if they were started together they
 * also have the same start ticks of 10 ms. Only this tells their processes apart. It is the inode
 * of /proc/self/ns/pid, and that is enough:
 *   - a living namespace shares its inode with no other. A namespace that has ended leaves its
 * inode to a later one. A process there with the same pid and start tick would have to begin within
 * the 10 ms in which the first began, took its lock and ended with all of its namespace;
 *   - a time namespace (Linux 5.6) shifts the start ticks that are read inside it. So a holder
 *     outside is not recognised from there, unless by DLOCK_TOKEN. The reverse, a later process
 *     with its pid that looks as old as the holder, takes an offset made for that; a user that can
 *     make one can as well set DLOCK_TOKEN. */
uint64_t process_namespace(void);

#define PROCESS_PROGRAM 64 /* TASK_COMM_LEN is 16, but kernel threads have more */

/* The name of its program (/proc/PID/comm); "" if that cannot be read. */
void process_program(pid_t pid, char program[static PROCESS_PROGRAM]);

/* The descriptor that it waits to read(2) from (/proc/PID/syscall); -1: none, or we may not know:
 * only a process that might trace it may (Yama). */
int process_reads_from(pid_t pid);
