#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/failure.h"

bool output_finish(struct failure *failure)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	return failure_set(failure, EXIT_SYSTEM, "cannot write to standard output: %m");
}

bool output_can_go_to(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY)
		errno = EBADF;
	return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}
