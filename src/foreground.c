#include "foreground.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failure.h"
#include "inherited.h"
#include "program.h"

/* Where the program was stopped we stop too, or the shell would wait for it for ever; when we are
 * continued, the SIGCONT goes on to it. Such news is void when a SIGCONT has come since: Ctrl-Z
 * stopped us along with it, and fg has continued both. */
static void stop_too(const struct inherited *inherited)
{
	sigset_t pending;

	sigpending(&pending);
	if (inherited->terminal && !sigismember(&pending, SIGCONT))
		raise(SIGTSTP);
}

/* Whether the program has ended. */
static bool has_ended(pid_t pid, const struct inherited *inherited, int *status)
{
	while (waitpid(pid, status, WNOHANG | WUNTRACED) == pid) {
		if (!WIFSTOPPED(*status))
			return true;
		stop_too(inherited);
	}
	return false;
}

/* Passes signals on until the program has ended; returns the last INT or QUIT that the terminal
 * sent to the whole process group, the program included. */
static int wait_for_end(pid_t pid, const struct inherited *inherited, int *status)
{
	sigset_t wanted = inherited->forwarded;
	int terminal_signal = 0;
	siginfo_t info;

	sigaddset(&wanted, SIGCHLD);
	while (!has_ended(pid, inherited, status)) {
		int sig = sigwaitinfo(&wanted, &info);

		if (sig < 0 || sig == SIGCHLD)
			continue;
		if (!inherited_is_shared(inherited, sig, info.si_code))
			kill(pid, sig);
		else if (sig == SIGINT || sig == SIGQUIT)
			terminal_signal = sig;
	}
	return terminal_signal;
}

bool foreground_run(const struct program *program, const struct inherited *inherited,
	struct foreground_end *end, struct failure *failure)
{
	bool exec_failed;
	pid_t pid = program_start(
		program, inherited, inherited->terminal ? getpgrp() : 0, &exec_failed);

	if (pid < 0)
		return failure_set(failure, exec_failed ? EXIT_NOT_EXECUTABLE : EXIT_SYSTEM,
			"cannot execute '%s': %s", program->argv[0], strerror(errno));

	int terminal_signal = wait_for_end(pid, inherited, &end->status);
	bool ended_us = WIFSIGNALED(end->status) && WTERMSIG(end->status) == terminal_signal;

	end->end_signal = ended_us ? terminal_signal : 0;
	return true;
}
