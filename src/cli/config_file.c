#include "cli/config_file.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/failure.h"

#define LINE_MOST 4000

struct reading {
	FILE *file;
	char *line;  /* with room for LINE_MOST + 2 */
	char *value; /* in it, if it is too long for inih */
	bool failed;
	struct config_entry entry;
	config_taker take;
	void *context;
	struct failure *failure;
};

static bool fault(struct reading *reading, const char *what)
{
	reading->failed = true;
	failure_set(reading->failure, EXIT_CONFIG, "%s:%d: %s", reading->entry.path,
		reading->entry.line, what);
	return false;
}

static bool fault_length(struct reading *reading, int most)
{
	char what[64];

	snprintf(what, sizeof(what), "a line of more than %d bytes", most);
	return fault(reading, what);
}

/* Into reading->line, without the blanks at its beginning, which inih would take for a value that
 * goes on. Allocates nothing: a file that is no configuration may be endless, and so may a line of
 * it. False: there is none, or a fault. */
static bool read_line(struct reading *reading)
{
	int length = 0;
	int byte;

	reading->entry.line++;
	while ((byte = getc_unlocked(reading->file)) != EOF && byte != '\n') {
		if (byte == '\0')
			return fault(reading, "a NUL byte");
		if (length == 0 && (byte == ' ' || byte == '\t'))
			continue;
		if (length > LINE_MOST)
			return fault_length(reading, LINE_MOST);
		reading->line[length++] = (char)byte;
	}
	if (byte == EOF && ferror(reading->file))
		return fault(reading, strerror(errno));
	if (byte == EOF && length == 0)
		return false;
	if (length > 0 && reading->line[length - 1] == '\r')
		length--;
	reading->line[length] = '\0';
	return length <= LINE_MOST || fault_length(reading, LINE_MOST);
}

/* inih's fgets(). It counts the lines, which inih does not tell its handler unless it was built so.
 * A line that fills the buffer inih takes for a part of a longer one, so of a longer one it gets
 * the key alone: the servers of a quorum do not fit into 200 bytes. */
static char *hand_over(char *buffer, int size, void *context)
{
	struct reading *reading = context;
	const char *line = reading->line;
	size_t most = (size_t)size - 2;
	size_t key;

	reading->value = NULL;
	if (reading->failed || !read_line(reading))
		return NULL;
	if (strlen(line) <= most)
		return strcpy(buffer, line);
	if (*line == '#' || *line == ';')
		return strcpy(buffer, "");
	key = strcspn(line, "=:");
	if (*line == '[' || line[key] == '\0' || key >= most)
		return fault_length(reading, (int)most), NULL;
	reading->value = reading->line + key + 1;
	memcpy(buffer, line, key + 1);
	buffer[key + 1] = '\0';
	return buffer;
}

/* As inih does it: from a blank and a ; on there is a comment, blanks at the ends do not count. */
static const char *trim(char *value)
{
	char *start = value, *end;

	while (isspace((unsigned char)*start))
		start++;
	end = start;
	for (char *at = value; *at != '\0'; at++) {
		if (*at == ';' && at > value && isspace((unsigned char)at[-1]))
			break;
		if (!isspace((unsigned char)*at))
			end = at + 1;
	}
	*end = '\0';
	return start;
}

static int take_entry(void *context, const char *section, const char *key, const char *value)
{
	struct reading *reading = context;

	reading->entry.section = section;
	reading->entry.key = key;
	reading->entry.value = reading->value == NULL ? value : trim(reading->value);
	if (!reading->failed)
		reading->failed =
			!reading->take(&reading->entry, reading->context, reading->failure);
	return 1;
}

static bool read_entries(struct reading *reading)
{
	char line[LINE_MOST + 2];
	int bad_line;

	reading->line = line;
	bad_line = ini_parse_stream(hand_over, reading, take_entry, reading);
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
	struct stat status;
	bool done;

	/* The files that are always read are not waited for. */
	if (!must_exist && stat(path, &status) == 0 && S_ISFIFO(status.st_mode))
		return failure_set(failure, EXIT_CONFIG, "%s: a FIFO", path);
	reading.file = fopen(path, "re");
	if (reading.file == NULL) {
		bool is_system = errno == EMFILE || errno == ENFILE || errno == ENOMEM;

		if (!must_exist && (errno == ENOENT || errno == ENOTDIR))
			return true;
		if (pardoned && errno == EACCES)
			return true;
		return failure_set(failure, is_system ? EXIT_SYSTEM : EXIT_CONFIG, "%s: %m", path);
	}
	done = read_entries(&reading);
	fclose(reading.file);
	return done;
}
