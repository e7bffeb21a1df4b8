/*
 * The state that dlock got from its caller, set aside while dlock needs it otherwise, and given to
 * COMMAND as it was: the signal mask, dispositions, standard streams, the time it is run for at a
 * time.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

struct caller_state {
	sigset_t mask;
	struct sigaction on_pipe, on_child;
	sigset_t ending;    /* of HUP INT QUIT TERM USR1 USR2 ALRM: those that were not ignored */
	sigset_t forwarded; /* ending, and WINCH CONT, as far as not ignored */
	int *opened;        /* the descriptors that it had open, in ascending order */
	size_t opened_count;
	bool opened_known;   /* false: no /proc, or no memory */
	bool terminal;       /* there is a controlling terminal */
	bool secret;         /* dlock leaves no core file; COMMAND may, */
	struct rlimit core;  /* up to this */
	bool more_files;     /* dlock may open more descriptors than COMMAND (surroundings.h), */
	struct rlimit files; /* which gets this limit back */
	uint64_t slice;      /* for how long it runs at a time, in ns; 0: dlock has the same */
};

/* Records all that, for as long as the process lasts, and prepares dlock:
 *   - standard streams that were closed lead to /dev/null; COMMAND's exec closes them again;
 *   - what is open is on record as the caller's;
 *   - SIGPIPE is ignored: a message that cannot be read any more must not end dlock;
 *   - SIGCHLD is at its default: an inherited SIG_IGN would reap without us;
 *   - the forwarded signals and SIGCHLD are blocked: from now on they arrive as data. SIGXFSZ is
 *     blocked as well. A signal that was ignored (nohup) stays ignored;
 *   - the scheduler lets dlock run for the shortest time at a time. A thread that asks for less is
 *     run sooner when it wakes up, and gets no more in all. So on a busy machine a dlock that has
 * an answer, or is handed the lock, is not left behind whatever runs there just then (EEVDF;
 *     Documentation/scheduler/sched-eevdf.rst). From Linux 6.12 on; an earlier one has no such
 *     choice, and nothing changes. */
void caller_state_take(struct caller_state *caller_state);

/* For a dlock that knows a password: however it dies, from now on it leaves no core file. */
void caller_state_keep_secret(struct caller_state *caller_state);

/* Whether COMMAND, in our process group on a terminal, has a signal already that came to us with
 * this si_code: the terminal sends its signals to the whole group. */
bool caller_state_is_shared(const struct caller_state *caller_state, int sig, int code);

/* Between fork and exec, in COMMAND's process: dispositions, mask, limits and slice as they were.
 * Async-signal-safe. */
void caller_state_return(const struct caller_state *caller_state);

/* Before COMMAND is started: what is not the caller's becomes close-on-exec. A library
 * has opened such files; those that dlock opens are close-on-exec from the start. No other thread
 * may open any meanwhile. */
void caller_state_hide(const struct caller_state *caller_state);

/* Closes every descriptor of the caller's, for a process that outlives its errand: a pipe of the
 * caller's must not stay open because of us. The standard streams lead to /dev/null from then on.
 * All of dlock's own stay. */
void caller_state_close(const struct caller_state *caller_state);

/* The same, and of all of dlock's own but one (-1: none is kept): for a process that opens what it
 * needs itself. */
void caller_state_close_all(int but);
