#include "supervise/survivors.h"

#include <stdio.h>
#include <string.h>

#include "process/process.h"
#include "process/process_tree.h"
#include "supervise/ward.h"

#define HOLDER_TIME   LEASE_RELEASE_LIMIT
#define HANDOVER_TIME (6 * NANOS_PER_SEC) /* a handover is looked after for a second less */
#define PID_TEXT      13                  /* "4194304, " and then some */

void survivors_say(struct lease *lease, const struct process_tree *tree, enum message_level level,
	const char *lead)
{
	char text[LEASE_SURVIVORS * PID_TEXT] = "";
	size_t count = tree_list(tree, lease->survivors, LEASE_SURVIVORS);
	size_t at = 0;

	for (size_t i = 0; i < count && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d", i ? ", " : "",
			(int)lease->survivors[i]);
	message_say(level, "%s %s", lead, text);
}

nanos survivors_leave_within(const struct process_tree *tree)
{
	static const struct {
		const char *program;
		nanos time;
	} leaving[] = {
		{HOLDER_PROGRAM, HOLDER_TIME},
		{HANDOFF_PROGRAM, HANDOVER_TIME},
	};
	pid_t pids[LEASE_SURVIVORS + 1];
	size_t count = tree_list(tree, pids, LEASE_SURVIVORS + 1);
	nanos longest = 0;

	/* A process is just being forked, or ends: the next look will tell. */
	if (count == 0)
		return HANDOVER_TIME;
	for (size_t i = 0; i < count; i++) {
		char program[PROCESS_PROGRAM];
		nanos time = 0;

		process_program(pids[i], program);
		for (size_t j = 0; j < sizeof(leaving) / sizeof(leaving[0]); j++)
			if (strcmp(program, leaving[j].program) == 0)
				time = leaving[j].time;
		if (time == 0)
			return 0;
		longest = time > longest ? time : longest;
	}
	return count <= LEASE_SURVIVORS ? longest : 0;
}
