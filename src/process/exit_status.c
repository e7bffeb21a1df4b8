#include "process/exit_status.h"

#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/exitcode.h"

int exit_status_code(int status)
{
	return WIFSIGNALED(status) ? EXIT_SIGNAL_BASE + WTERMSIG(status) : WEXITSTATUS(status);
}

void exit_status_by_signal(int sig)
{
	struct rlimit none = {0, 0};
	sigset_t set;

	setrlimit(RLIMIT_CORE, &none);
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}
