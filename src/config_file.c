#include "config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "failure.h"

struct reading {
	FILE *file;
	bool failed;
	struct config_entry entry;
	config_taker take;
	void *context;
	struct failure *failure;
};

/* NULL, for inih: the end. */
static char *fault(struct reading *reading, const char *what)
{
	reading->failed = true;
	failure_set(reading->failure, EXIT_CONFIG, "%s:%d: %s", reading->entry.path,
		reading->entry.line, what);
	return NULL;
}

static char *fault_length(struct reading *reading, int most)
{
	char what[64];

	snprintf(what, sizeof(what), "a line of more than %d bytes", most);
	return fault(reading, what);
}

/* inih's fgets(). It counts the lines, which inih does not tell its handler unless it was built so,
 * and takes the blanks at their beginning, which inih would take for a value that goes on. No
 * memory is asked for: what is no configuration may have no end, nor a line of it. */
static char *read_line(char *buffer, int size, void *context)
{
	struct reading *reading = context;
	int length = 0;
	int most =
		size - 2; /* inih takes a line that fills the buffer for a part of a longer one */
	int byte;

	if (reading->failed)
		return NULL;
	reading->entry.line++;
	while ((byte = getc_unlocked(reading->file)) != EOF && byte != '\n') {
		if (byte == '\0')
			return fault(reading, "a NUL byte");
		if (length == 0 && (byte == ' ' || byte == '\t'))
			continue;
		if (length > most)
			return fault_length(reading, most);
		buffer[length++] = (char)byte;
	}
	if (byte == EOF && ferror(reading->file))
		return fault(reading, strerror(errno));
	if (byte == EOF && length == 0)
		return NULL;
	if (length > 0 && buffer[length - 1] == '\r')
		length--;
	if (length > most)
		return fault_length(reading, most);
	buffer[length] = '\0';
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

/* The files that are always read are not waited for: a FIFO there would be. */
static bool is_waited_for(int fd, bool must_exist)
{
	struct stat status;

	return !must_exist && fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode);
}

static enum exit_code code_of(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM ? EXIT_SYSTEM : EXIT_CONFIG;
}

bool config_file_read(const char *path, bool must_exist, bool pardoned, config_taker take,
	void *context, struct failure *failure)
{
	struct reading reading = {
		.entry.path = path, .take = take, .context = context, .failure = failure};
	bool done;
	/* Most runs end here, without any of stdio. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | (must_exist ? 0 : O_NONBLOCK));

	if (fd < 0) {
		if (!must_exist && (errno == ENOENT || errno == ENOTDIR))
			return true;
		if (pardoned && errno == EACCES)
			return true;
		return failure_set(failure, code_of(errno), "%s: %m", path);
	}
	if (is_waited_for(fd, must_exist)) {
		close(fd);
		return failure_set(failure, EXIT_CONFIG, "%s: a FIFO", path);
	}
	reading.file = fdopen(fd, "r");
	if (reading.file == NULL) {
		close(fd);
		return failure_set(failure, EXIT_SYSTEM, "%s: %m", path);
	}
	done = read_entries(&reading);
	fclose(reading.file);
	return done;
}
