/*
 * LD_PRELOAD=linger.so LINGER=FILE: who ends by _exit(2) says so by FILE.here, and does it once FILE
 * is gone. What is said of a process that ends at once must hold for one that takes its time.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

void _exit(int status)
{
	const char *file = getenv("LINGER");
	char here[PATH_MAX];

	if (file && snprintf(here, sizeof(here), "%s.here", file) < PATH_MAX && access(file, F_OK) == 0) {
		close(open(here, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
		while (access(file, F_OK) == 0)
			usleep(1000);
	}
	for (;;)
		syscall(SYS_exit_group, status);
}
