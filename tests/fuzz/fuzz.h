/* What a fuzzer has: one function that takes any bytes, and must not crash, hang or break a rule
 * that it checks itself. libFuzzer calls it (make fuzz), and driver.c in `make check`. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The bytes as a string: it ends at the first NUL. free() with it. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	MUST(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

#endif
