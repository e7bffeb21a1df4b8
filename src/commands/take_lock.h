/* What the commands that take a lock have in common: its request, and what is said in the end. */
#pragma once

#include <stdbool.h>

struct nesting;
struct lock_request;
struct options;
struct outcome;
struct server;

/* What the options ask for, and who asks; borrows from both. */
void take_lock_prepare(
	const struct options *options, const struct nesting *nesting, struct lock_request *request);

/* Whether standard output can be written to; before standard streams that are closed are filled
 * (caller_state_take). */
bool take_lock_can_print(void);

/* Says which server is asked (-v), and what may be unwise about it. */
void take_lock_announce(const struct server *server);

/* One line on how it went, where it is worth one and was not said when it happened. */
void take_lock_say(const struct outcome *outcome, const struct options *options);
