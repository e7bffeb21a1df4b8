/* A command line, an argument a line: options, operands, the server, all that is read of them. */
#include "cli/options_read.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/failure.h"
#include "cli/options.h"
#include "cli/other_program.h"
#include "commands/commands.h"
#include "fuzz.h"

#define MOST 40

/* --help and --version have much to say. */
static void silence(void)
{
	static int null = -1;

	if (null < 0) {
		null = open("/dev/null", O_RDWR);
		MUST(null >= 0 && dup2(null, STDIN_FILENO) == 0 && dup2(null, STDOUT_FILENO) == 1);
		setenv("HOME", "/nonexistent", 1);
		unsetenv("XDG_CONFIG_HOME");
	}
}

static void check(const struct options *options)
{
	MUST(options->command != NULL && options->command->run != NULL);
	MUST(options->ttl >= NANOS_PER_SEC && options->wait >= 0 && options->grace >= 0);
	MUST(options->conflict_exit >= 0 && options->conflict_exit <= 255);
	MUST(options->priority >= -1000 && options->priority <= 1000);
	MUST(options->command->bit != COMMAND_RUN ||
		(options->name != NULL && options->argv != NULL && options->argv[0] != NULL &&
			options->server != NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), *rest = text;
	char program[] = "dlock", *argv[MOST + 1] = {program};
	struct failure failure = {0};
	struct options options;
	bool done = false;
	int argc = 1;

	silence();
	while (argc < MOST && rest != NULL && *rest != '\0')
		argv[argc++] = strsep(&rest, "\n");
	if (!options_read(&options, commands, argc, argv, &done, &failure))
		MUST(failure.code != EXIT_DONE && failure.text[0] != '\0');
	else if (!done && !other_program_is_needed(&options)) /* that reads it all anew */
		check(&options);
	options_close(&options);
	free(text);
	return 0;
}
