/* How the tests read a command line, in a world of their own. */
#ifndef READ_OPTIONS_H
#define READ_OPTIONS_H

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "cli/options_read.h"
#include "commands/commands.h"
#include "tap.h"

#define MOST 12
#define URL  "redis://h"

/* A folder of the test's own, and the configuration in it, which counts where there is one. */
static char folder[] = "/tmp/dlock-options-XXXXXX";
static char config_path[sizeof(folder) + 32];

/* Nothing of the caller's environment counts. */
static inline void open_world(void)
{
	static const char *const cleared[] = {"DLOCK_SERVER", "DLOCK_PASSWORD", "DLOCK_FENCE",
		"REDISCLI_AUTH", "XDG_CONFIG_HOME", "POSIXLY_CORRECT"};

	for (size_t i = 0; i < COUNT(cleared); i++)
		unsetenv(cleared[i]);
	setenv("HOME", "/nonexistent", 1);
	if (mkdtemp(folder) == NULL) {
		printf("Bail out! no temporary folder\n");
		exit(1);
	}
	snprintf(config_path, sizeof(config_path), "%s/test.conf", folder);
}

/* Removes the folder, which must be empty. Returns main's exit code. */
static inline int close_world(void)
{
	ok(rmdir(folder) == 0, "nothing is left behind");
	return tap_end();
}

/* Reads a command line of which a copy is made, since it is written to. */
static inline bool read_line(
	struct options *options, const char *const *line, struct failure *failure)
{
	static char *copies[MOST + 4];
	size_t count = 0;
	bool done;

	for (char **copy = copies; *copy != NULL; copy++) {
		free(*copy);
		*copy = NULL;
	}
	copies[count++] = strdup("dlock");
	if (access(config_path, F_OK) == 0) {
		copies[count++] = strdup("--config");
		copies[count++] = strdup(config_path);
	}
	for (; *line != NULL; line++)
		copies[count++] = strdup(*line);
	return options_read(options, commands, (int)count, copies, &done, failure) && !done;
}

#define READ(options, failure, ...)                                                                \
	read_line(options, (const char *const[]){__VA_ARGS__, NULL}, failure)

#endif
