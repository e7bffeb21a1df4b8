/* What `dlock check` found, kept and shown: a table for people, JSON for scripts, to stdout. */
#ifndef DLOCK_FINDINGS_H
#define DLOCK_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "exitcode.h"

struct failure;
struct lock_finding;
struct server;

/* Begins as zeros. */
struct findings {
	struct lock_finding *list; /* owned, with all texts */
	size_t count;
	bool out_of_memory;
};

/* For lock_examine(): context is a struct findings. */
void findings_take(const struct lock_finding *finding, void *context);
void findings_free(struct findings *findings);

/* The first finding for which no lock is safe; NULL: there is none. */
const struct lock_finding *findings_worst(const struct findings *findings);

/* Its code; else EXIT_BUSY where there are doubts; else EXIT_DONE. */
enum exit_code findings_code(const struct findings *findings);

/* A heading, then a line for each; without doubts and what is well where only failures count. A
 * server has a column where there are several. */
void findings_table(const struct findings *findings, bool only_failures);

/* One object on one line, as dlock(1) has it. False with failure EXIT_SYSTEM when memory is short.
 */
bool findings_json(
	const struct findings *findings, const struct server *server, struct failure *failure);

#endif
