/*
 * Which code a program executes: runs it and what it forks one instruction at a time, until they
 *end or become another program.
 *
 *	layout PROGRAM [ARG]...
 *
 * Prints the addresses that were executed, as offsets from where PROGRAM was loaded, in hex, one a
 *line. What PROGRAM says goes to stderr. Ends with PROGRAM's exit code. x86-64 and aarch64.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define OFFSETS (16 << 20) /* bytes of a program at most */

static unsigned char executed[OFFSETS];
static unsigned long base;

/* Where PROGRAM was loaded: the first line of its maps. */
static unsigned long find_base(pid_t pid)
{
	char path[64];
	unsigned long start = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "r");
	if (maps == NULL || fscanf(maps, "%lx", &start) != 1)
		exit(125);
	fclose(maps);
	return start;
}

static void note(pid_t pid)
{
	struct user_regs_struct registers;
	struct iovec into = {.iov_base = &registers, .iov_len = sizeof(registers)};
	unsigned long at;

	if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &into) != 0)
		return;
#ifdef __x86_64__
	at = registers.rip - base;
#else
	at = registers.pc - base;
#endif
	if (at < OFFSETS)
		executed[at] = 1;
}

/* Goes on with what has stopped; what is another program from now on runs alone. */
static void go_on(pid_t pid, int status)
{
	static const long options =
		PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
	int sig = WSTOPSIG(status);

	if (base == 0) {
		base = find_base(pid);
		ptrace(PTRACE_SETOPTIONS, pid, NULL, options);
		sig = 0;
	} else if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
		ptrace(PTRACE_DETACH, pid, NULL, NULL);
		return;
	}
	note(pid);
	if (sig == SIGTRAP || sig == SIGSTOP)
		sig = 0;
	ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)(long)sig);
}

int main(int argc, char **argv)
{
	int status, code = 125;
	pid_t first = fork(), pid;

	if (argc < 2)
		return 125;
	if (first == 0) {
		dup2(STDERR_FILENO, STDOUT_FILENO);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[1], argv + 1);
		_exit(127);
	}
	while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
		if (pid > 0 && WIFSTOPPED(status))
			go_on(pid, status);
		else if (pid == first && WIFEXITED(status))
			code = WEXITSTATUS(status);
	}
	for (size_t i = 0; i < OFFSETS; i++)
		if (executed[i])
			printf("%zx\n", i);
	return code;
}
