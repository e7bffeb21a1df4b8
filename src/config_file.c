#include "config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "failure.h"

struct reading {
	FILE *file;
	char *line; /* owned, by getline(3) */
	size_t line_size;
	bool failed;
	struct config_entry entry;
	config_taker take;
	void *context;
	struct failure *failure;
};

static void fault(struct reading *reading, const char *what)
{
	reading->failed = true;
	failure_set(reading->failure, EXIT_CONFIG, "%s:%d: %s", reading->entry.path,
		reading->entry.line, what);
}

/* inih's fgets(). It counts the lines, which inih does not tell its handler unless it was built so,
 * and takes the blanks at their beginning, which inih would take for a value that goes on. */
static char *read_line(char *buffer, int size, void *context)
{
	struct reading *reading = context;
	char *start;
	ssize_t length;

	if (reading->failed)
		return NULL;
	length = getline(&reading->line, &reading->line_size, reading->file);
	reading->entry.line++;
	if (length == -1) {
		if (ferror(reading->file))
			fault(reading, strerror(errno));
		return NULL;
	}
	if (strlen(reading->line) < (size_t)length) {
		fault(reading, "a NUL byte");
		return NULL;
	}
	start = reading->line + strspn(reading->line, " \t");
	start[strcspn(start, "\r\n")] = '\0';
	/* A line that fills the buffer is one that inih takes for a part of a longer one. */
	if (strlen(start) > (size_t)size - 2) {
		char what[64];

		snprintf(what, sizeof(what), "a line of more than %d bytes", size - 2);
		fault(reading, what);
		return NULL;
	}
	strlcpy(buffer, start, (size_t)size);
	return buffer;
}

static int take_entry(void *context, const char *section, const char *key, const char *value)
{
	struct reading *reading = context;

	reading->entry.section = section;
	reading->entry.key = key;
	reading->entry.value = value;
	if (!reading->failed)
		reading->failed =
			!reading->take(&reading->entry, reading->context, reading->failure);
	return 1;
}

static bool read_entries(struct reading *reading)
{
	int bad_line = ini_parse_stream(read_line, reading, take_entry, reading);

	if (!reading->failed && bad_line != 0) {
		reading->entry.line = bad_line;
		fault(reading, "neither [section] nor key = value");
	}
	return !reading->failed;
}

bool config_file_read(const char *path, bool must_exist, bool pardoned, config_taker take,
	void *context, struct failure *failure)
{
	struct reading reading = {
		.entry.path = path, .take = take, .context = context, .failure = failure};
	bool done;
	int fd = open(path, O_RDONLY | O_CLOEXEC); /* most runs end here, without any of stdio */

	if (fd < 0) {
		if (!must_exist && (errno == ENOENT || errno == ENOTDIR))
			return true;
		if (pardoned && errno == EACCES)
			return true;
		return failure_set(failure, EXIT_CONFIG, "%s: %m", path);
	}
	reading.file = fdopen(fd, "r");
	if (reading.file == NULL) {
		close(fd);
		return failure_set(failure, EXIT_SYSTEM, "%s: %m", path);
	}
	done = read_entries(&reading);
	fclose(reading.file);
	free(reading.line);
	return done;
}
