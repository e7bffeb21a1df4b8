/* The part that commands that take a lock have in common: its request, and the words in the end. */
#pragma once

#include "supervise/task.h"

struct lock_request;
struct options;
struct report;
struct server;

/* Prepares this process for it: signals, secrets, the dlocks around it. NULL with failure: there is
 * no memory for the lease. It lasts as long as the process. */
struct lease *take_lock_begin(const struct options *options, struct caller_state *caller_state,
	struct nesting *nesting, struct failure *failure);

/* The request of the options, and the owner that asks; borrows from all. */
void take_lock_prepare(const struct options *options, const struct nesting *nesting,
	struct lease *lease, struct lock_request *request);

/* The task of front_run or detached_acquire; without the ward, or how the grant is delivered. */
struct front_task take_lock_task(const struct options *options, struct lock *lock,
	struct lease *lease, struct nesting *nesting, const struct lock_request *request,
	struct caller_state *caller_state);

/* Says which server is asked (-v), and what may be unwise about it. */
void take_lock_announce(const struct server *server);

/* Says in one line how it went, if that is worth one and was not said when it happened. Returns
 * dlock's exit code, or dies of the signal that ended it. report NULL: none is written. */
int take_lock_end(
	const struct outcome *outcome, const struct options *options, struct report *report);
