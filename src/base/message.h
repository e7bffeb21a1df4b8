/*
 * The lines dlock says on stderr (and to syslog with --syslog): "dlock: NAME: what happened".
 * Each line is one write(2), so lines of concurrent runs do not mix. A line never waits for its
 * reader, a terminal or a syslog daemon for longer than 50 ms each; then it is lost. Control
 * characters that come from elsewhere are made visible. Set up once, before the keeper is forked;
 * then any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct failure;

enum message_level {
	MESSAGE_ERROR = 0,   /* why dlock ends; silent with -qq */
	MESSAGE_WARNING = 1, /* silent with -q; the busy line too */
	MESSAGE_INFO = 2,    /* with -v */
	MESSAGE_DEBUG = 3,   /* with -vv: each renewal */
};

/* Levels above `level` are silent (-1 silences all). */
void message_open(int level, bool to_syslog);

/* The lock NAME that the following lines name; borrowed, may be NULL for none. */
void message_name(const char *name);

/* From now on lines go to `write` instead of stderr; those that it could not write (false) go to
 * syslog, at least. Once, before there is a second thread; it is then called by any. */
void message_divert(bool (*write)(const char *line, size_t length, void *context), void *context);

bool message_shows(enum message_level level);

/* Says why dlock ends, and returns the exit code for it. */
int message_failure(const struct failure *failure);

void message_say(enum message_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
