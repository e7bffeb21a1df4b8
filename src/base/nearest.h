/* The word that was probably meant by one that is not known. Pure. */
#pragma once

#include <stddef.h>

struct nearest {
	const char *typed; /* borrowed */
	size_t length;     /* of typed, in bytes */
	size_t most;       /* typos that the next word may have */
	const char *word;  /* the nearest so far; borrowed; NULL: none is near enough */
};

/* Begins with `length` bytes at typed. A word is near with one typo for each three letters at most,
 * or one in all. */
void nearest_begin(struct nearest *nearest, const char *typed, size_t length);

/* Takes the word if it is near enough, and nearer than those before it. */
void nearest_try(struct nearest *nearest, const char *word);
