/*
 * dlock guard STATEFILE COMMAND: the resource's side of a fencing token.
 *
 * dlock stays as COMMAND's parent and gives the flock back when COMMAND has ended: an exec in
 * its place would leave the flock to a descriptor that ssh(1), sudo(8) or `exec 3>file` closes in
 * mid-work, and that a daemon left behind keeps open for ever. But COMMAND inherits the descriptor
 * besides: should dlock be killed, COMMAND dies with it (program.h), yet what COMMAND has started
 * lives on, and must not meet the next one at the resource. So the flock stays with these until
 * the last of them has ended.
 */
#include "commands/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/message.h"
#include "cli/options.h"
#include "commands/fence_file.h"
#include "process/caller_state.h"
#include "process/exit_status.h"
#include "process/program.h"

/* Nothing has happened yet: while we wait for the flock, a signal does to us what it always does.
 */
static bool wait_for_turn(struct fence_file *file, const struct options *options,
	const struct caller_state *caller_state, struct failure *failure)
{
	sigset_t as_data;
	bool opened;

	sigprocmask(SIG_SETMASK, &caller_state->mask, &as_data);
	opened = fence_file_open(file, options->state_file, failure);
	sigprocmask(SIG_SETMASK, &as_data, NULL);
	return opened;
}

/* COMMAND may go on to another resource, or wish to leave the token with its work. */
static void hand_down(const struct fence_file *file)
{
	char token[24];

	snprintf(token, sizeof(token), "%" PRId64, file->token);
	setenv("DLOCK_FENCE", token, 1);
	fcntl(file->fd, F_SETFD, 0);
}

/* If COMMAND was stopped we stop too, or the shell would wait for it for ever. When we are
 * continued, the SIGCONT goes on to it. Such news is void when a SIGCONT has come since: Ctrl-Z
 * stopped us along with it, and fg has continued both. */
static void stop_too(const struct caller_state *caller_state)
{
	sigset_t pending;

	sigpending(&pending);
	if (caller_state->terminal && !sigismember(&pending, SIGCONT))
		raise(SIGTSTP);
}

/* Whether COMMAND has ended. */
static bool has_ended(pid_t pid, const struct caller_state *caller_state, int *status)
{
	while (waitpid(pid, status, WNOHANG | WUNTRACED) == pid) {
		if (!WIFSTOPPED(*status))
			return true;
		stop_too(caller_state);
	}
	return false;
}

/* Passes signals on until COMMAND has ended; returns the last INT or QUIT that the terminal
 * sent to the whole process group, COMMAND included. */
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

/* Starts COMMAND, waits for its end and gives the flock back. It shares our process group if there
 * is a controlling terminal, else it gets its own, so that a signal to ours reaches it once. Its
 * end is ours: returns the exit code, or dies of the signal from the terminal that ended it. */
static int run_job(struct fence_file *file, const struct program *program,
	const struct caller_state *caller_state)
{
	pid_t group = caller_state->terminal ? getpgrp() : 0;
	struct failure failure;
	pid_t pid = program_start(program, caller_state, getpid(), group, NULL, &failure);
	int status, terminal_signal;

	if (pid < 0) {
		fence_file_close(file);
		return message_failure(&failure);
	}
	terminal_signal = wait_for_end(pid, caller_state, &status);
	fence_file_close(file);
	if (WIFSIGNALED(status) && WTERMSIG(status) == terminal_signal)
		exit_status_by_signal(terminal_signal);
	return exit_status_code(status);
}

int cmd_guard(const struct options *options)
{
	static struct caller_state caller_state;
	struct program program;
	struct fence_file file;
	struct failure failure;

	caller_state_take(&caller_state);
	if (!program_find(&program, options->argv, &failure))
		return message_failure(&failure);
	if (!wait_for_turn(&file, options, &caller_state, &failure))
		return message_failure(&failure);
	if (!fence_file_record(&file, options->fence, &failure)) {
		fence_file_close(&file);
		return message_failure(&failure);
	}
	hand_down(&file);
	return run_job(&file, &program, &caller_state);
}
