/* What lives on of a tree that was to end: listed for the report, and said. */
#ifndef DLOCK_SURVIVORS_H
#define DLOCK_SURVIVORS_H

#include <stdbool.h>

#include "lease.h"
#include "message.h"

#define HOLDER_PROGRAM "dlock hold" /* what such a keeper calls itself (PR_SET_NAME) */
#define HANDOVER_PROGRAM                                                                           \
	"dlock handover" /* and who sees to a handover: see handover_leave_behind */

struct process_tree;

/* Lists the descendants in lease->survivors and says "LEAD PID, PID, PID". */
void survivors_say(struct lease *lease, const struct process_tree *tree, enum message_level level,
	const char *lead);

/* Whether all of it are keepers of `dlock hold`, which end soon after their callers. */
bool survivors_are_holders(const struct process_tree *tree);

/* Whether all of it only see to a handover of some other lock, for a dlock that has ended. */
bool survivors_hand_over(const struct process_tree *tree);

#endif
