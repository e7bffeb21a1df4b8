#include "process/foreground_job.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failure.h"
#include "process/caller_state.h"
#include "process/program.h"

/* If the program was stopped we stop too, or the shell would wait for it for ever. When we are
 * continued, the SIGCONT goes on to it. Such news is void when a SIGCONT has come since: Ctrl-Z
 * stopped us along with it, and fg has continued both. */
static void stop_too(const struct caller_state *caller_state)
{
	sigset_t pending;

	sigpending(&pending);
	if (caller_state->terminal && !sigismember(&pending, SIGCONT))
		raise(SIGTSTP);
}

/* Whether the program has ended. */
static bool has_ended(pid_t pid, const struct caller_state *caller_state, int *status)
{
	while (waitpid(pid, status, WNOHANG | WUNTRACED) == pid) {
		if (!WIFSTOPPED(*status))
			return true;
		stop_too(caller_state);
	}
	return false;
}

/* Passes signals on until the program has ended; returns the last INT or QUIT that the terminal
 * sent to the whole process group, the program included. */
static int wait_for_end(pid_t pid, const struct caller_state *caller_state, int *status)
{
	sigset_t wanted = caller_state->forwarded;
	int terminal_signal = 0;
	siginfo_t info;

	sigaddset(&wanted, SIGCHLD);
	while (!has_ended(pid, caller_state, status)) {
		int sig = sigwaitinfo(&wanted, &info);

		if (sig < 0 || sig == SIGCHLD)
			continue;
		if (!caller_state_is_shared(caller_state, sig, info.si_code))
			kill(pid, sig);
		else if (sig == SIGINT || sig == SIGQUIT)
			terminal_signal = sig;
	}
	return terminal_signal;
}

bool foreground_job_run(const struct program *program, const struct caller_state *caller_state,
	struct foreground_job_end *end, struct failure *failure)
{
	bool exec_failed;
	pid_t pid = program_start(
		program, caller_state, caller_state->terminal ? getpgrp() : 0, &exec_failed);

	if (pid < 0)
		return failure_set(failure, exec_failed ? EXIT_NOT_EXECUTABLE : EXIT_SYSTEM,
			"cannot execute '%s': %s", program->argv[0], strerror(errno));

	int terminal_signal = wait_for_end(pid, caller_state, &end->status);
	bool ended_us = WIFSIGNALED(end->status) && WTERMSIG(end->status) == terminal_signal;

	end->end_signal = ended_us ? terminal_signal : 0;
	return true;
}
