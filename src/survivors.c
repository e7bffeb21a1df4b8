#include "survivors.h"

#include <stdio.h>

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
