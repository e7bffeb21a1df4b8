#include "stopping.h"

#include <signal.h>

#include "process_tree.h"

#define ROUND_FIRST    (5 * NANOS_PER_MS)
#define ROUND_LONGEST  (100 * NANOS_PER_MS)
#define HOPELESS_AFTER NANOS_PER_SEC

void stopping_begin(
	struct stopping *stopping, const struct process_tree *tree, int stop_signal, nanos grace)
{
	if (stopping->begun)
		return;
	stopping->begun = true;
	stopping->kill_at = clock_now() + grace;
	tree_signal(tree, stop_signal);
}

static nanos kill_at(const struct stopping *stopping, nanos limit)
{
	return stopping->kill_at < limit ? stopping->kill_at : limit;
}

static void kill_round(struct stopping *stopping, struct process_tree *tree, nanos now)
{
	if (!stopping->killing) {
		stopping->killing = true;
		stopping->killing_since = now;
		stopping->pause = ROUND_FIRST;
	}
	tree_signal(tree, SIGKILL);
	tree_reap(tree);
	if (now >= stopping->next_round) {
		stopping->next_round = now + stopping->pause;
		stopping->pause =
			stopping->pause * 2 < ROUND_LONGEST ? stopping->pause * 2 : ROUND_LONGEST;
	}
}

void stopping_step(struct stopping *stopping, struct process_tree *tree, nanos limit)
{
	nanos now = clock_now();

	if (stopping->begun && !tree->empty && now >= kill_at(stopping, limit))
		kill_round(stopping, tree, now);
}

nanos stopping_due(const struct stopping *stopping, nanos limit)
{
	if (!stopping->begun)
		return NANOS_NEVER;
	return stopping->killing ? stopping->next_round : kill_at(stopping, limit);
}

bool stopping_is_hopeless(const struct stopping *stopping, const struct process_tree *tree)
{
	return stopping->killing && !tree->empty &&
	       clock_now() >= stopping->killing_since + HOPELESS_AFTER;
}
