#include "process/program.h"

#include <bsd/string.h>
#include <errno.h>
#include <paths.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/number.h"
#include "process/caller_state.h"

/* 0, or why exec would refuse: a directory passes access(2). */
static int fault_of(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	return access(path, X_OK) < 0 ? errno : 0;
}

/* One directory of PATH, an empty one being the current. False when the path would be too long. It
 * has a '/', so that execvp(3) does not search, too. */
static bool join(char path[static PATH_MAX], const char *directory, size_t length, const char *name)
{
	if (length >= PATH_MAX)
		return false;
	memcpy(path, directory, length);
	strcpy(path + length, length == 0 ? "." : "");
	return strlcat(path, "/", PATH_MAX) < PATH_MAX && strlcat(path, name, PATH_MAX) < PATH_MAX;
}

/* The first file on PATH that can be executed; else the first fault that is not "there is none". */
static int search(char path[static PATH_MAX], const char *name)
{
	const char *directory = getenv("PATH");
	int fault = ENOENT;

	if (!directory)
		directory = _PATH_DEFPATH;
	for (;;) {
		size_t length = strcspn(directory, ":");

		if (join(path, directory, length, name)) {
			int found = fault_of(path);

			if (found == 0)
				return 0;
			if (found != ENOENT && found != ENOTDIR && found != EISDIR &&
				fault == ENOENT)
				fault = found;
		}
		if (directory[length] == '\0')
			return fault;
		directory += length + 1;
	}
}

bool program_find(struct program *program, char **argv, struct failure *failure)
{
	int fault;

	program->argv = argv;
	if (argv[0][0] == '\0')
		fault = ENOENT;
	else if (!strchr(argv[0], '/'))
		fault = search(program->path, argv[0]);
	else if (strlcpy(program->path, argv[0], PATH_MAX) >= PATH_MAX)
		fault = ENAMETOOLONG;
	else
		fault = fault_of(program->path);

	if (fault == 0)
		return true;
	return failure_set(failure,
		fault == ENOENT || fault == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE,
		"cannot execute '%s': %s", argv[0], strerror(fault));
}

/* --- The environment -------------------------------------------------------------------------- */

#define PID_VARIABLES 2
#define VARIABLE_SIZE 40

/* COMMAND's: that of this process, with variables that name COMMAND. */
struct environment {
	char **all; /* environ, or a copy that is owned */
	char texts[PID_VARIABLES][VARIABLE_SIZE];
	char *numbers[PID_VARIABLES]; /* in texts, where COMMAND's pid goes; NULL: not set */
};

/* The variable that systemd has set for the process `dlock`, of which it is the number; -1: none.
 */
static int find_pid_variable(const char *text, pid_t dlock)
{
	static const char *const names[PID_VARIABLES] = {"WATCHDOG_PID=", "LISTEN_PID="};
	char number[NUMBER_SIZE];

	number_write(number, dlock);
	for (int i = 0; i < PID_VARIABLES; i++) {
		size_t length = strlen(names[i]);

		if (strncmp(text, names[i], length) == 0 && strcmp(text + length, number) == 0)
			return i;
	}
	return -1;
}

/* Without memory it stays as it is: COMMAND runs without watchdog and sockets. */
static void environment_open(struct environment *environment, pid_t dlock)
{
	size_t count = 0;
	bool any = false;

	*environment = (struct environment){.all = environ};
	for (; environ[count]; count++)
		any |= find_pid_variable(environ[count], dlock) >= 0;
	if (!any)
		return;
	environment->all = reallocarray(NULL, count + 1, sizeof(*environment->all));
	if (!environment->all) {
		environment->all = environ;
		return;
	}
	for (size_t i = 0; i <= count; i++) {
		int found = environ[i] ? find_pid_variable(environ[i], dlock) : -1;

		environment->all[i] = environ[i];
		if (found < 0)
			continue;
		strlcpy(environment->texts[found], environ[i], VARIABLE_SIZE);
		environment->numbers[found] = strchr(environment->texts[found], '=') + 1;
		environment->all[i] = environment->texts[found];
	}
}

static void environment_close(struct environment *environment)
{
	if (environment->all != environ)
		free((void *)environment->all);
}

/* In COMMAND's process, before exec. Async-signal-safe. */
static void environment_name_command(struct environment *environment)
{
	for (int i = 0; i < PID_VARIABLES; i++)
		if (environment->numbers[i])
			number_write(environment->numbers[i], getpid());
}

/* --- Starting --------------------------------------------------------------------------------- */

/* The child's part; it shares the parent's memory and stack until exec (vfork(2)), so it touches
 * nothing but `fault`, `told` and the environment that is its own. */
static void become(const struct program *program, const struct caller_state *caller_state,
	struct environment *environment, pid_t group, pid_t parent, _Atomic(pid_t) *told,
	volatile int *fault)
{
	setpgid(0, group); /* EPERM if the caller's group has died out: then ours is as good */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_INTERNAL); /* the parent died before the line above */
	caller_state_return(caller_state);
	environment_name_command(environment);
	if (told)
		atomic_store(told, getpid());
	execvpe(program->path, program->argv, environment->all); /* by a shell if it has no "#!" */
	*fault = errno;
	if (told)
		atomic_store(told, 0);
	_exit(EXIT_NOT_EXECUTABLE);
}

pid_t program_start(const struct program *program, const struct caller_state *caller_state,
	pid_t dlock, pid_t group, _Atomic(pid_t) *told, struct failure *failure)
{
	struct environment environment;
	pid_t parent = getpid();
	volatile int fault = 0;

	environment_open(&environment, dlock);
	/* vfork, because a copy of the page tables is what costs most here; posix_spawn(3) cannot
	 * set the death signal. */
	pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */

	if (pid == 0)
		become(program, caller_state, &environment, group, parent, told, &fault);

	int error = pid < 0 ? errno : fault;

	environment_close(&environment);
	if (error == 0)
		return pid;
	if (pid > 0)
		waitpid(pid, NULL, 0);
	failure_set(failure, pid > 0 ? EXIT_NOT_EXECUTABLE : EXIT_SYSTEM, "cannot execute '%s': %s",
		program->argv[0], strerror(error));
	return -1;
}
