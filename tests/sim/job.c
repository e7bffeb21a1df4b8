/*
 * A COMMAND in simulated time: job MS. Appends to `log` "S NAME begin FENCE free|held" and, MS later, "S NAME end": S in
 * simulated seconds, NAME from SIM_NAME. `held`: another one has the flock(2) on `held`, and so lives.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "seam.h"

static void note(int log, const char *what)
{
	char line[256];
	int length = snprintf(line, sizeof(line), "%.3f %s %s\n", (double)seam_now() / 1e9, getenv("SIM_NAME"), what);

	if (write(log, line, (size_t)length) != length)
		abort();
}

int main(int argc, char **argv)
{
	int log = open("log", O_WRONLY | O_APPEND | O_CREAT, 0666), held = open("held", O_RDWR | O_CREAT, 0666);
	bool free = flock(held, LOCK_EX | LOCK_NB) == 0;
	char begin[128];

	if (argc != 2)
		return 64;
	snprintf(begin, sizeof(begin), "begin %s %s", getenv("DLOCK_FENCE"), free ? "free" : "held");
	note(log, begin);
	seam_sleep(atoi(argv[1]));
	note(log, "end");
	return 0;
}
