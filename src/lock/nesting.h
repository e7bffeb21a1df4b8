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
	bool looked;                /* at the ancestors */
	char tokens[NESTING_TEXT];  /* separated by blanks, the innermost first */
	char held[NESTING_HELD];    /* lines "TOKEN NAME" of those whose NAMEs are known */
	char over[LOCK_TOKEN_SIZE]; /* of a holder that counts no longer: its caller has released
				     * the lock; "" */
};

/* Looks at the ancestors if DLOCK_TOKEN says that there is a dlock among them: else this is free.
 */
void nesting_open(struct nesting *nesting);

/* Whether the holder that a busy answer names is a dlock around this one: the lock is to be had
 * inside. may_look: at the ancestors, unless that was done. */
bool nesting_has(struct nesting *nesting, const struct owner *self,
	const struct lock_answer *answer, bool may_look);

/* The next dlock around this one that has told its COMMAND that it holds the lock NAME: its line in
 * `held`, behind `line` (NULL: the first), and its token, LOCK_TOKEN_SIZE. NULL: there is none.
 * Pure.
 */
const char *nesting_next(
	const struct nesting *nesting, const char *name, const char *line, char token[]);
