/*
 * launch [SETTING]... COMMAND [ARG]...: runs COMMAND from a known state, whatever shell the test
 * runs in. bash starts background jobs with INT and QUIT ignored; this undoes it.
 *
 *   default       every signal at its default and unblocked
 *   setsid        a session of its own, without a terminal
 *   group         a process group of its own
 *   block=LIST    these signals blocked      LIST: names without SIG, or numbers, with commas
 *   ignore=LIST   these signals ignored
 *   close=LIST    these descriptors closed
 *   core          core files without limit
 *   pid=FILE      writes COMMAND's process id into FILE
 *   outcome=FILE  stays as the parent; writes "exit N", "signal NAME" or "signal NAME core"
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/newer_libc.h"

static void die(const char *what)
{
	fprintf(stderr, "launch: %s: %s\n", what, strerror(errno));
	exit(125);
}

static int signal_number(const char *text)
{
	for (int number = 1; number < NSIG; number++) {
		const char *name = sigabbrev_np(number);
		if (name != NULL && strcmp(name, text) == 0)
			return number;
	}
	return atoi(text);
}

static void file_write(const char *path, const char *text)
{
	char next[4096];

	/* Renamed into place: a process that waits for the file sees it whole. */
	snprintf(next, sizeof(next), "%s.new", path);
	FILE *file = fopen(next, "w");
	if (file == NULL || fputs(text, file) == EOF || fclose(file) != 0 ||
		rename(next, path) != 0)
		die(path);
}

static void signals_default(void)
{
	sigset_t none;

	sigemptyset(&none);
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void signal_block(int number)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, number);
	sigprocmask(SIG_BLOCK, &one, NULL);
}

static void signal_ignore(int number)
{
	signal(number, SIG_IGN);
}

static void descriptor_close(int number)
{
	close(number);
}

static void list_each(char *list, bool descriptors, void (*apply)(int))
{
	for (char *item = strtok(list, ","); item != NULL; item = strtok(NULL, ","))
		apply(descriptors ? atoi(item) : signal_number(item));
}

static void core_unlimited(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	if (setrlimit(RLIMIT_CORE, &limit) != 0)
		die("core");
}

static int outcome_wait(pid_t child, const char *path)
{
	char text[64];
	int status;

	/* What the terminal sends to the whole group is COMMAND's. */
	for (int number = 1; number < NSIG; number++)
		if (number != SIGCHLD)
			signal(number, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			die("wait");
	if (WIFEXITED(status))
		snprintf(text, sizeof(text), "exit %d", WEXITSTATUS(status));
	else
		snprintf(text, sizeof(text), "signal %s%s", sigabbrev_np(WTERMSIG(status)),
			WCOREDUMP(status) ? " core" : "");
	file_write(path, text);
	return 0;
}

static void pid_write(const char *path)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", (int)getpid());
	file_write(path, text);
}

struct settings {
	const char *pid_file, *outcome_file;
	char *closed;
};

static bool setting_apply(struct settings *settings, char *text)
{
	char *value = strchr(text, '=');

	if (strcmp(text, "default") == 0)
		signals_default();
	else if (strcmp(text, "setsid") == 0)
		setsid();
	else if (strcmp(text, "group") == 0)
		setpgid(0, 0);
	else if (strcmp(text, "core") == 0)
		core_unlimited();
	else if (value == NULL)
		return false;
	else if (strncmp(text, "block=", 6) == 0)
		list_each(value + 1, false, signal_block);
	else if (strncmp(text, "ignore=", 7) == 0)
		list_each(value + 1, false, signal_ignore);
	else if (strncmp(text, "close=", 6) == 0)
		settings->closed = value + 1;
	else if (strncmp(text, "pid=", 4) == 0)
		settings->pid_file = value + 1;
	else if (strncmp(text, "outcome=", 8) == 0)
		settings->outcome_file = value + 1;
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	struct settings settings = {0};
	int i = 1;

	while (i < argc && setting_apply(&settings, argv[i]))
		i++;
	if (i == argc) {
		fprintf(stderr, "launch: no command\n");
		return 125;
	}
	if (settings.outcome_file != NULL) {
		pid_t child = fork();
		if (child < 0)
			die("fork");
		if (child > 0)
			return outcome_wait(child, settings.outcome_file);
	}
	if (settings.pid_file != NULL)
		pid_write(settings.pid_file);
	if (settings.closed != NULL)
		list_each(settings.closed, true, descriptor_close);
	execvp(argv[i], argv + i);
	die(argv[i]);
}
