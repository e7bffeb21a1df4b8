/* dlock under valgrind: executes COMMAND --log-... PROGRAM ARGUMENT... (tests/memcheck compiles
 * it). No script, so that environment, descriptors and directory arrive as the caller has them. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef COMMAND
#define COMMAND "valgrind", "--quiet"
#define PROGRAM "dlock"
#define PRELOAD "pidfd.so"
#endif
#ifndef WITH_COMMAND
#define WITH_COMMAND 1
#endif

/* What runs in one process. */
static bool is_single(const char *word)
{
	static const char *const words[] = {"status", "check", "acquire", "renew", "release"};

	for (size_t i = 0; word && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(word, words[i]) == 0)
			return true;
	return false;
}

/* PRELOAD, before what the caller has preloaded. COMMAND gets it too, and has no use for it. */
static void preload(void)
{
	const char *others = getenv("LD_PRELOAD");
	char all[2 * PATH_MAX] = PRELOAD;

	if (others && strcmp(others, PRELOAD) != 0)
		snprintf(all, sizeof(all), "%s:%s", PRELOAD, others);
	setenv("LD_PRELOAD", all, 1);
}

int main(int argc, char **argv)
{
	static const char *const command[] = {COMMAND};
	const size_t count = sizeof(command) / sizeof(command[0]);
	const char *folder = getenv("BATS_FILE_TMPDIR");
	char **arguments = calloc(count + 2 + (size_t)argc, sizeof(*arguments));
	char log[PATH_MAX] = "--log-fd=2";

	if (!WITH_COMMAND && !is_single(argv[1]))
		execv(PROGRAM, argv);
	if (!arguments)
		return 71;
	/* Another user may not write there. */
	if (folder && access(folder, W_OK) == 0)
		snprintf(log, sizeof(log), "--log-file=%s/finding.%%p", folder);
	preload();
	memcpy(arguments, command, sizeof(command));
	arguments[count] = log;
	arguments[count + 1] = (char *)PROGRAM;
	memcpy(arguments + count + 2, argv + 1, (size_t)argc * sizeof(*argv));
	execv(arguments[0], arguments);
	perror(arguments[0]);
	return 126;
}
