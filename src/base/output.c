#include "base/output.h"

#include <stdio.h>

#include "base/failure.h"

bool output_finish(struct failure *failure)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	return failure_set(failure, EXIT_SYSTEM, "cannot write to standard output: %m");
}
