#include "commands/report.h"

#include <bsd/stdlib.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/message.h"
#include "base/output.h"
#include "cli/options.h"
#include "net/server.h"
#include "show/status_json.h"
#include "supervise/outcome.h"

#define TRIES 100 /* names for the new file; each is taken with a chance of 1 in 2^32 */

static json_t *survivor_array(const struct outcome *outcome)
{
	json_t *array = json_array();

	for (int i = 0; i < LEASE_SURVIVORS && outcome->survivors[i] != 0; i++)
		json_array_append_new(array, json_integer(outcome->survivors[i]));
	return array;
}

static const char *server_name(const struct options *options, const struct lock_answer *answer)
{
	if (answer->server[0] != '\0')
		return answer->server;
	return options->server ? options->server->text : NULL;
}

/* One line; free() it. NULL: out of memory. */
static char *make_line(const struct options *options, const struct outcome *outcome)
{
	const struct lock_answer *answer = &outcome->answer;
	bool granted = answer->result == LOCK_GRANTED && answer->fence != 0;
	int command_exit = outcome_command_exit(outcome);
	json_t *object = json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:I, s:o, s:i, s:o}", "outcome",
		outcome_word(outcome), "exit", outcome_exit(outcome, options->conflict_exit),
		"command_exit", status_json_number(command_exit, command_exit >= 0), "name",
		status_json_text(options->name), "fence",
		status_json_number((int64_t)answer->fence, granted), "server",
		status_json_text(server_name(options, answer)), "waited_ms",
		(json_int_t)(outcome->waited / NANOS_PER_MS), "held_ms",
		status_json_number(outcome->held / NANOS_PER_MS, granted), "reclaimed",
		outcome->reclaimed, "survivors", survivor_array(outcome));
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	char *line = NULL;

	json_decref(object);
	if (text && asprintf(&line, "%s\n", text) < 0)
		line = NULL;
	free(text);
	return line;
}

/* One write, so that a pipe or a log takes it as a whole. */
static bool write_line(int fd, const char *line)
{
	size_t length = strlen(line);
	ssize_t written;

	do
		written = write(fd, line, length);
	while (written < 0 && errno == EINTR);
	if (written >= 0 && (size_t)written < length)
		errno = ENOSPC;
	return written == (ssize_t)length;
}

/* A new file beside the one that it is to become. -1 with errno; else *name is to be freed. */
static int create_beside(const char *path, char **name)
{
	for (int i = 0; i < TRIES; i++) {
		int fd;

		if (asprintf(name, "%s.%08x~", path, arc4random()) < 0)
			return -1;
		fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd >= 0)
			return fd;
		free(*name);
		if (errno != EEXIST)
			return -1;
	}
	return -1;
}

/* line NULL: only tries whether it could. */
static bool replace_file(const char *path, const char *line)
{
	char *name;
	int fd = create_beside(path, &name), error;
	bool done;

	if (fd < 0)
		return false;
	done = !line || write_line(fd, line);
	done = close(fd) == 0 && done; /* NFS: only now is the disk found full */
	done = done && (!line || rename(name, path) == 0);
	error = errno;
	if (!done || !line)
		unlink(name);
	free(name);
	errno = error;
	return done;
}

/* O_NONBLOCK: a FIFO without a reader is an error, not a reason to wait. */
static bool open_stream(struct report *report, const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return false;
	/* COMMAND's standard streams may be closed, and must stay so. */
	report->stream = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return report->stream >= 0 && fcntl(report->stream, F_SETFL, O_APPEND) == 0;
}

static bool open_path(struct report *report, const char *path)
{
	struct stat status;

	if (*path == '\0') {
		errno = ENOENT;
		return false;
	}
	if (lstat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return open_stream(report, path);
	return replace_file(path, NULL) && (unlink(path) == 0 || errno == ENOENT);
}

bool report_open(struct report *report, const struct options *options, struct failure *failure)
{
	*report = (struct report){.options = options, .stream = -1};
	if (options->report_fd >= 0 && !output_can_go_to(options->report_fd))
		return failure_set(failure, EXIT_USAGE, "--report-fd: cannot write to %d: %s",
			options->report_fd, strerror(errno));
	if (options->report && !open_path(report, options->report))
		return failure_set(failure, EXIT_USAGE, "--report: cannot write '%.200s': %s",
			options->report, strerror(errno));
	return true;
}

static void warn(const char *where)
{
	message_say(MESSAGE_WARNING, "cannot write the report to %s: %s", where, strerror(errno));
}

static void put_line(struct report *report, const char *line)
{
	const struct options *options = report->options;
	char number[32];

	if (options->report && !(report->stream >= 0 ? write_line(report->stream, line)
						     : replace_file(options->report, line)))
		warn(options->report);
	snprintf(number, sizeof(number), "descriptor %d", options->report_fd);
	if (options->report_fd >= 0 && !write_line(options->report_fd, line))
		warn(number);
}

void report_write(struct report *report, const struct outcome *outcome)
{
	char *line;

	if (!report->options->report && report->options->report_fd < 0)
		return;
	signal(SIGPIPE, SIG_IGN); /* the reader may be gone: that is a warning */
	signal(SIGXFSZ, SIG_IGN); /* so is a file that may not grow */
	line = make_line(report->options, outcome);
	if (line)
		put_line(report, line);
	else
		message_say(MESSAGE_WARNING, "cannot write the report: out of memory");
	free(line);
	if (report->stream >= 0)
		close(report->stream);
	report->stream = -1;
}
