#include "cli/other_program.h"

#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failure.h"
#include "cli/loadable.h"
#include "cli/options.h"
#include "lock/services.h"
#include "net/server.h"

#ifndef PKGLIBEXECDIR
#define PKGLIBEXECDIR "/usr/libexec/dlock"
#endif

/* Beside this program, where it was built; else where it is installed. False: there is none. A
 * program that was put in this one's place does not count: it would execute itself for ever. */
static bool find(const char *name, char path[static PATH_MAX])
{
	char own[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", own, PATH_MAX - 1);
	char *slash;

	own[length < 0 ? 0 : length] = '\0';
	strlcpy(path, own, PATH_MAX);
	slash = strrchr(path, '/');
	if (slash) {
		slash[1] = '\0';
		if (strlcat(path, name, PATH_MAX) < PATH_MAX && access(path, X_OK) == 0)
			return strcmp(path, own) != 0;
	}
	strlcpy(path, PKGLIBEXECDIR "/", PATH_MAX);
	strlcat(path, name, PATH_MAX);
	return access(path, X_OK) == 0 && strcmp(path, own) != 0;
}

bool other_program_is_needed(const struct options *options)
{
	return options->server && options->server->program;
}

/* Starts it, with its standard output in fd, or its standard error; 0: it did not start. */
static pid_t start(const char *path, int fd, int as)
{
	char *argv[] = {(char *)path, (char *)"--version", NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid = 0;

	if (posix_spawn_file_actions_init(&actions) != 0)
		return 0;
	if (posix_spawn_file_actions_adddup2(&actions, fd, as) != 0 ||
		posix_spawn(&pid, path, &actions, NULL, argv, environ) != 0)
		pid = 0;
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* Whether it ends as it should when it is only asked for its version; else its last words, or the
 * loader's. */
static bool starts(const char *path, char *words, size_t size)
{
	ssize_t length = 0;
	int ends[2], status = -1;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return true; /* no time to be strict */
	pid = start(path, ends[1], STDERR_FILENO);
	close(ends[1]);
	length = pid > 0 ? read(ends[0], words, size - 1) : 0;
	close(ends[0]);
	words[length > 0 ? length : 0] = '\0';
	words[strcspn(words, "\n")] = '\0';
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* The loader would end with 127, or with 1, as if the lock were busy. */
static bool check_start(const char *path, const struct options *options, struct failure *failure)
{
	char words[256];

	if (loadable_at_sight(path) || starts(path, words, sizeof(words)))
		return true;
	return failure_set(failure, EXIT_CONFIG, "cannot use %s: %s does not start: %s",
		options->server->text, path, words[0] ? words : "its loader is missing");
}

bool other_program_become(char **argv, const struct options *options, struct failure *failure)
{
	char path[PATH_MAX];
	struct stat status;

	if (!find(options->server->program, path))
		return services_miss(options->server, failure);
	if (options->config && (stat(options->config, &status) != 0 || !S_ISREG(status.st_mode)))
		return failure_set(failure, EXIT_USAGE,
			"--config: '%.100s' is no regular file: for this server it has to be read "
			"twice",
			options->config);
	if (!check_start(path, options, failure))
		return false;
	execv(path, argv);
	return failure_set(failure, EXIT_SYSTEM, "cannot execute %s: %s", path, strerror(errno));
}

bool other_program_library(const char *program, char *text, size_t size)
{
	char path[PATH_MAX];
	ssize_t length;
	int ends[2];
	pid_t pid;

	if (!find(program, path) || pipe2(ends, O_CLOEXEC) != 0)
		return false;
	pid = start(path, ends[1], STDOUT_FILENO);
	close(ends[1]);
	length = pid > 0 ? read(ends[0], text, size - 1) : 0;
	close(ends[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	text[length > 0 ? length : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return *text != '\0';
}
