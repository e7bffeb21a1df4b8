/* What the commands that take a lock have in common: its request, and what is said in the end. */
#ifndef DLOCK_TAKING_H
#define DLOCK_TAKING_H

struct ancestry;
struct lock_request;
struct options;
struct outcome;

/* What the options ask for, and who asks; borrows from both. */
void taking_prepare(const struct options *options, const struct ancestry *ancestry,
	struct lock_request *request);

/* One line on how it went, where it is worth one and was not said when it happened. */
void taking_say(const struct outcome *outcome, const struct options *options);

#endif
