/*
 * What dlock got from its caller, set aside while dlock needs it otherwise, and given to COMMAND
 * as it was: the signal mask, dispositions, standard streams, the time it is run for at a time.
 */
#ifndef DLOCK_INHERITED_H
#define DLOCK_INHERITED_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

struct inherited {
	sigset_t mask;
	struct sigaction on_pipe, on_child;
	sigset_t ending;    /* of HUP INT QUIT TERM USR1 USR2 ALRM: those that were not ignored */
	sigset_t forwarded; /* ending, and WINCH CONT, as far as not ignored */
	bool terminal;      /* there is a controlling terminal */
	bool secret;        /* dlock leaves no core file; COMMAND may, */
	struct rlimit core; /* up to this */
	uint64_t slice;     /* see slice.h; 0: dlock has the same */
};

/* Records all that and prepares dlock: standard streams that were closed lead to /dev/null (closed
 * again by COMMAND's exec), SIGPIPE ignored (hiredis sends without MSG_NOSIGNAL), SIGCHLD at its
 * default (an inherited SIG_IGN would reap behind our back), the forwarded signals and SIGCHLD
 * blocked: from now on they arrive as data. SIGXFSZ is blocked as well. A signal that was ignored
 * (nohup) stays ignored. From now on dlock is run without delay when it is woken (slice.h). */
void inherited_take(struct inherited *inherited);

/* For a dlock that knows a password: however it dies, from now on it leaves no core file. */
void inherited_keep_secret(struct inherited *inherited);

/* Whether COMMAND, in our process group on a terminal, has a signal already that came to us with
 * this si_code: the terminal sends its signals to the whole group. */
bool inherited_is_shared(const struct inherited *inherited, int sig, int code);

/* Between fork and exec, in COMMAND's process: dispositions, mask, limit and slice as they were.
 * Async-signal-safe. */
void inherited_return(const struct inherited *inherited);

/* Lets go of every descriptor of the caller's, for a process that outlives its errand: a pipe of
 * his must not stay open because of us. The standard streams lead to /dev/null from then on. All of
 * dlock's own are close-on-exec, and stay. */
void inherited_close(void);

#endif
