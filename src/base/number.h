/*
 * Numbers as text without printf(3), for what every run does: its machinery is a fifth of what a
 * run on `file:` would otherwise map of libc. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NUMBER_SIZE 21 /* a sign, 19 digits, and the NUL; or 20 digits and the NUL */

/* Write a number at `at`, which takes NUMBER_SIZE bytes at most, and a NUL behind it. Return where
 * the NUL is. */
char *number_write(char *at, int64_t number);
char *number_write_unsigned(char *at, uint64_t number);

/* The same in 16 hexadecimal digits: 17 bytes. */
char *number_write_hex(char *at, uint64_t number);

/* A number as an argument: returns text, which has room for NUMBER_SIZE bytes. */
const char *number_text(char *text, int64_t number);

int64_t number_least(int64_t a, int64_t b);
int64_t number_within(int64_t number, int64_t least, int64_t most); /* clamped */

/* Whether text is a whole number, as strtoll(3) reads it, and nothing else. */
bool number_is(const char *text);

/* For qsort(3): of int64_t, the least first. */
int number_compare(const void *a, const void *b);
