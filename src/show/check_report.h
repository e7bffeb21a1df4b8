/* The findings of `dlock check`, kept and shown: a table for people, JSON for scripts, to stdout.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/exitcode.h"

struct failure;
struct lock_finding;
struct server;

/* Begins as zeros. */
struct check_report {
	struct lock_finding *list; /* owned, with all texts */
	size_t count;
	bool out_of_memory;
};

/* For lock_check_server(): context is a struct check_report. */
void check_report_take(const struct lock_finding *finding, void *context);
void check_report_free(struct check_report *findings);

/* The first finding for which no lock is safe; NULL: there is none. */
const struct lock_finding *check_report_worst(const struct check_report *findings);

/* Its code; else EXIT_BUSY if there are doubts; else EXIT_DONE. */
enum exit_code check_report_code(const struct check_report *findings);

/* A heading, then a line for each; without doubts and what is well if only failures count. A server
 * has a column if there are several. */
void check_report_table(const struct check_report *findings, bool only_failures);

/* One object on one line, as dlock-check(1) has it. False with failure EXIT_SYSTEM when memory is
 * short.
 */
bool check_report_json(
	const struct check_report *findings, const struct server *server, struct failure *failure);
