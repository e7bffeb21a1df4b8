/* FNV-1a (draft-eastlake-fnv): a number for a text, not to be guessed from it at sight. Pure. */
#pragma once

#include <stdint.h>

#define HASH_BASIS UINT64_C(0xcbf29ce484222325)

/* The hash of a text behind the one that `sum` is of (HASH_BASIS: none), its NUL included: so
 * "a" "b" is not "ab" "". */
uint64_t hash_text(uint64_t sum, const char *text);
