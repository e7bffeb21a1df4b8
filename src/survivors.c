#include "survivors.h"

#include <stdio.h>
#include <string.h>

#include "process.h"
#include "process_tree.h"

#define PID_TEXT 13 /* "4194304, " and then some */

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

static bool are_all(const struct process_tree *tree, const char *wanted)
{
	pid_t pids[LEASE_SURVIVORS + 1];
	size_t count = tree_list(tree, pids, LEASE_SURVIVORS + 1);
	char program[PROCESS_PROGRAM];

	for (size_t i = 0; i < count; i++) {
		process_program(pids[i], program);
		if (strcmp(program, wanted) != 0)
			return false;
	}
	return count <= LEASE_SURVIVORS;
}

bool survivors_are_holders(const struct process_tree *tree)
{
	return are_all(tree, HOLDER_PROGRAM);
}

bool survivors_hand_over(const struct process_tree *tree)
{
	return are_all(tree, HANDOVER_PROGRAM);
}
