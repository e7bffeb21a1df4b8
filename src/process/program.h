/* COMMAND as a file: found before the lock is taken, started once it is held. */
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

struct failure;
struct caller_state;

struct program {
	char **argv;         /* borrowed; NULL-terminated */
	char path[PATH_MAX]; /* the file that argv[0] means, as execvp(3) would look it up */
};

/* Looks COMMAND up. False with EXIT_NOT_FOUND or EXIT_NOT_EXECUTABLE. */
bool program_find(struct program *program, char **argv, struct failure *failure);

/*
 * Starts it with the caller's signals as they were and the environment of this process. A variable
 * that names `dlock` there, as the process that systemd started (WATCHDOG_PID, LISTEN_PID), names
 * COMMAND. Its process group becomes `group` (0: one of its own). It gets SIGKILL when the calling
 * thread ends: the last floor under everything else (PR_SET_PDEATHSIG follows the thread that
 * forked; set-uid programs clear it). Returns its pid, which *told (or NULL) has before COMMAND
 * runs, as that may kill this process at once; -1 with EXIT_NOT_EXECUTABLE, or EXIT_SYSTEM if there
 * is no process to be had.
 */
pid_t program_start(const struct program *program, const struct caller_state *caller_state,
	pid_t dlock, pid_t group, _Atomic(pid_t) *told, struct failure *failure);
