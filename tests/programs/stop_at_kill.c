/*
 * Stops a keeper in the moment when it is to kill, by LD_PRELOAD. The first process that sends
 * SIGKILL removes the file $STOP_AT_KILL, and stops before it sends. The leader of the session
 * never does: that is the front, as the tests start it.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static void stop_once(int sig)
{
	const char *file = getenv("STOP_AT_KILL");

	if (sig == SIGKILL && file && getsid(0) != getpid() && unlink(file) == 0)
		raise(SIGSTOP);
}

int kill(pid_t pid, int sig)
{
	stop_once(sig);
	return (int)syscall(SYS_kill, pid, sig);
}

int pidfd_send_signal(int fd, int sig, siginfo_t *info, unsigned flags)
{
	stop_once(sig);
	return (int)syscall(SYS_pidfd_send_signal, fd, sig, info, flags);
}
