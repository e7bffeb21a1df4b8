/* --report and --report-fd: the outcome as one JSON object, for scripts. Its form, which dlock(1)
 * has, does not change any more. Costs nothing when it is not asked for. */
#pragma once

#include <stdbool.h>

struct failure;
struct options;
struct outcome;

struct report {
	const struct options *options; /* borrowed */
	int stream;                    /* --report on a device, a FIFO, a link: opened; -1 */
};

/*
 * Before anything else happens: removes the report of an earlier run, and makes sure that there can
 * be one of this. False with EXIT_USAGE. A regular file is replaced when the report is there, by
 * rename(2); what else --report may name is opened now, and written to once. Before standard
 * streams that are closed are filled: --report-fd 1 must not write to nowhere.
 */
bool report_open(struct report *report, const struct options *options, struct failure *failure);

/* Writes it, and closes what report_open has opened. A report that cannot be written is worth a
 * warning, for COMMAND has run. */
void report_write(struct report *report, const struct outcome *outcome);
