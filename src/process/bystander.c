#include "process/bystander.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "process/caller_state.h"
#include "process/process.h"

#define HOLD_FOR (20 * NANOS_PER_MS)

/* All signals stay pending. It keeps nothing open: a pipe of the caller's, or the lock of a file.
 */
static _Noreturn void stand_by(pid_t parent)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0); /* the parent died before the line above */
	caller_state_close_all(-1);
	for (;;)
		sigsuspend(&all);
}

void bystander_start(struct bystander *bystander)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid == 0)
		stand_by(parent);
	bystander->pid = pid > 0 ? pid : 0;
}

/* SIGCHLD, which is blocked, tells nothing about COMMAND then. */
void bystander_end(struct bystander *bystander)
{
	static const struct timespec at_once;
	sigset_t child;

	if (bystander->pid > 0) {
		kill(bystander->pid, SIGKILL);
		while (waitpid(bystander->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
		sigemptyset(&child);
		sigaddset(&child, SIGCHLD);
		sigtimedwait(&child, NULL, &at_once);
	}
	*bystander = (struct bystander)BYSTANDER_NONE;
}

bool bystander_hold(struct bystander *bystander, int sig)
{
	if (bystander->pid == 0)
		return false;
	if (bystander->held == 0)
		bystander->due = clock_now() + HOLD_FOR;
	bystander->held |= UINT64_C(1) << (sig - 1);
	return true;
}

/* The signals that it has got so far (ShdPnd in proc(5)); none if /proc does not tell. */
static uint64_t seen_by(const struct bystander *bystander)
{
	static const char field[] = "\nShdPnd:\t";
	char path[48], text[4096];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)bystander->pid);
	at = process_read_file(path, text, sizeof(text)) ? strstr(text, field) : NULL;
	return at ? strtoull(at + strlen(field), NULL, 16) : 0;
}

uint64_t bystander_decide(struct bystander *bystander)
{
	uint64_t seen = bystander->pid > 0 ? seen_by(bystander) : 0;
	uint64_t left = bystander->held & ~seen;

	if (seen != 0) {
		bystander_end(bystander);
		bystander_start(bystander);
	}
	bystander->held = 0;
	bystander->due = NANOS_NEVER;
	return left;
}
