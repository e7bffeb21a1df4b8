/* The processes that live on of a tree that was to end: listed for the report, and said. */
#pragma once

#include "base/message.h"
#include "supervise/lease.h"

struct process_tree;

/* The name of a keeper that goes on after its front was told (PR_SET_NAME): until what it handed
 * off is settled. */
#define HANDOFF_PROGRAM "dlock handover"

/* Lists the descendants in lease->survivors and says "LEAD PID, PID, PID". */
void survivors_say(struct lease *lease, const struct process_tree *tree, enum message_level level,
	const char *lead);

/* Within what time all of it will have ended by itself: keepers of `dlock hold`, which end soon
 * after their callers, and what sees to a handover of some other lock, or releases it, for a
 * dlock that has ended. 0: there is something else among it. For an empty list it is the longest:
 * that may lack a process that is just being forked. */
nanos survivors_leave_within(const struct process_tree *tree);
