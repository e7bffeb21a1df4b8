/* A configuration file, as it is read, and as options make use of it. */
#include "cli/config_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/failure.h"
#include "cli/options.h"
#include "cli/options_read.h"
#include "commands/commands.h"
#include "fuzz.h"

static bool take(const struct config_entry *entry, void *context, struct failure *failure)
{
	(void)failure;
	MUST(entry->line > 0 && entry->section != NULL && entry->key != NULL);
	MUST(entry->value != NULL);
	*(int *)context += 1;
	return true;
}

static void read_as_options(char *path)
{
	char words[][10] = {"dlock", "--config", "--profile", "p", "x", "true"};
	char *argv[] = {words[0], words[1], path, words[2], words[3], words[4], words[5], NULL};
	struct failure failure = {0};
	struct options options;
	bool done;

	if (!options_read(&options, commands, 7, argv, &done, &failure))
		MUST(failure.code != EXIT_DONE && failure.text[0] != '\0');
	options_close(&options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("configuration", 0);
	struct failure failure = {0};
	char path[64];
	int entries = 0;

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!config_file_read(path, true, false, take, &entries, &failure))
		MUST(failure.code == EXIT_CONFIG && strncmp(failure.text, path, 8) == 0);
	read_as_options(path);
	close(fd);
	return 0;
}
