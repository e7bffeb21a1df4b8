/*
 * The dlocks that this process runs under, by the tokens of their locks: from DLOCK_TOKEN, from the
 * environments that our ancestors were started with (ours may have been cleared, and of nested
 * dlocks it names only the innermost), and from a holder that is an ancestor itself.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/lock.h"

struct owner;

#define NESTING_TEXT 8192 /* some 100 tokens; more are left out, the outermost */
#define NESTING_HELD 8192

struct nesting {
	bool looked;               /* at the ancestors */
	char tokens[NESTING_TEXT]; /* separated by blanks, the innermost first */
	char held[NESTING_HELD];   /* lines "TOKEN NAME" of those whose NAMEs are known */
};

/* Looks at the ancestors if DLOCK_TOKEN says that there is a dlock among them: else this is free.
 */
void nesting_open(struct nesting *nesting);

/* The lock is busy, as answer says: looks at the ancestors, now at the latest. Once. True when
 * there are tokens that were not known before. */
bool nesting_learn(
	struct nesting *nesting, const struct owner *self, const struct lock_answer *answer);

/* What COMMAND, or the caller of hold, is told of a grant of the lock NAME, LOCK_GRANTED or
 * LOCK_WITHIN: the owner token, `token` or that of the lock around it, and *fence. Of an outer lock
 * that is the fence that its own COMMAND was told, if our environment has it. */
const char *nesting_told(
	const char *name, const char *token, const struct lock_answer *answer, uint64_t *fence);
