/*
 * The dlocks that this process runs under, by the tokens of their locks: from DLOCK_TOKEN, from the
 * environments that our ancestors were started with (ours may have been cleared, and of nested
 * dlocks it names only the innermost), and from a holder that is an ancestor itself.
 */
#ifndef DLOCK_ANCESTRY_H
#define DLOCK_ANCESTRY_H

#include <stdbool.h>
#include <stdint.h>

struct lock_answer;
struct party;

#define ANCESTRY_TEXT 2048 /* some 16 tokens; more are left out, the outermost */
#define ANCESTRY_HELD 8192

struct ancestry {
	bool looked;                /* at the ancestors */
	char tokens[ANCESTRY_TEXT]; /* separated by blanks, the innermost first */
	char held[ANCESTRY_HELD];   /* lines "TOKEN NAME" of those whose NAMEs are known */
};

/* Looks at the ancestors if DLOCK_TOKEN says that there is a dlock among them: else this is free.
 */
void ancestry_open(struct ancestry *ancestry);

/* The lock is busy, as answer says: looks at the ancestors, now at the latest. Once. True when
 * there are tokens that were not known before. */
bool ancestry_learn(
	struct ancestry *ancestry, const struct party *self, const struct lock_answer *answer);

/* The fence of the lock NAME that an outer dlock holds by token, as it told COMMAND; `otherwise`
 * where the environment does not say. */
uint64_t ancestry_fence(const char *name, const char *token, uint64_t otherwise);

#endif
