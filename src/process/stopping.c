#include "process/stopping.h"

#include <signal.h>

#include "process/process_tree.h"

#define ROUND_FIRST    (2 * NANOS_PER_MS)
#define ROUND_LONGEST  (100 * NANOS_PER_MS)
#define HOPELESS_AFTER NANOS_PER_SEC
#define ROUNDS_LEAST   10 /* on a busy machine one alone may take as long */

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
	nanos took;

	if (stopping->rounds == 0)
		stopping->killing_since = now;
	else if (now < stopping->next_round)
		return;
	tree_signal(tree, SIGKILL);
	tree_reap(tree);
	stopping->rounds++;

	/* Not at each death: three hundred of them, each with a sweep over what is left, would keep
	 * the processor from those that are to die. While any die the next round is near, but
	 * sweeps never take more than half of the time. */
	if (tree->reaped != stopping->reaped || stopping->pause == 0)
		stopping->pause = ROUND_FIRST;
	else if ((stopping->pause *= 2) > ROUND_LONGEST)
		stopping->pause = ROUND_LONGEST;
	stopping->reaped = tree->reaped;
	took = clock_now() - now;
	stopping->next_round = now + took + (took > stopping->pause ? took : stopping->pause);
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
	return stopping->rounds > 0 ? stopping->next_round : kill_at(stopping, limit);
}

bool stopping_is_hopeless(const struct stopping *stopping, const struct process_tree *tree)
{
	return stopping->rounds >= ROUNDS_LEAST && !tree->empty &&
	       clock_now() >= stopping->killing_since + HOPELESS_AFTER;
}
