/* How an error travels: set where it happens, said once at the edge. Never holds a secret. */
#pragma once

#include <stdbool.h>

#include "base/exitcode.h"

struct failure {
	enum exit_code code; /* EXIT_DONE: none */
	bool passes;         /* EXIT_UNREACHABLE: the server is there, and may serve in a while */
	char text[400];      /* one line without "dlock: " and without a newline */
};

/* Fills it in, printf-like, and clears `passes`; the text is cut to fit and control characters in
 * it become '?'. An argument may be failure->text itself, so that a caller can say more about what
 * it got. Returns false, so that "return failure_set(...)" reads well. */
bool failure_set(struct failure *failure, enum exit_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
