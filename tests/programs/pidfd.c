/* pidfd_send_signal(2) for a dlock under valgrind, which up to 3.24 knows pidfd_open(2) and not
 * this: a signal to the process that /proc says the descriptor is of. Preloaded (memcheck.c). */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>

int pidfd_send_signal(int pidfd, int sig, siginfo_t *info, unsigned int flags)
{
	char path[64], line[128];
	int pid = -1;
	FILE *file;

	(void)info;
	(void)flags;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	file = fopen(path, "re");
	while (file && pid < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "Pid: %d", &pid);
	if (file)
		fclose(file);
	if (pid > 0)
		return kill(pid, sig);
	errno = ESRCH; /* it was reaped */
	return -1;
}
