/* A configuration file: INI, by inih. Which keys there are, and what they mean, is
 * options_read.c's. */
#pragma once

#include <stdbool.h>

struct failure;

/* One key = value of a file. All borrowed, for the time of the call. */
struct config_entry {
	const char *path;
	int line;
	const char *section; /* empty before the first [section] */
	const char *key;
	const char *value;
};

/* Takes one entry; false with failure ends the reading. */
typedef bool (*config_taker)(
	const struct config_entry *entry, void *context, struct failure *failure);

/* Hands each entry of the file to take(). A missing file counts as empty unless it must exist. So
 * does one that may not be read, if that is pardoned. A file that must exist may be a FIFO. False
 * with failure EXIT_CONFIG, naming file and line, with EXIT_SYSTEM, or with that of take(). */
bool config_file_read(const char *path, bool must_exist, bool pardoned, config_taker take,
	void *context, struct failure *failure);
