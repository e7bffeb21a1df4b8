/* What lives on of a tree that was to end: listed for the report, and said. */
#ifndef DLOCK_SURVIVORS_H
#define DLOCK_SURVIVORS_H

#include "lease.h"
#include "message.h"

struct process_tree;

/* Lists the descendants in lease->survivors and says "LEAD PID, PID, PID". */
void survivors_say(struct lease *lease, const struct process_tree *tree, enum message_level level,
	const char *lead);

#endif
