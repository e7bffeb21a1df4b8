/* The owner token of a detached lock, as `acquire` prints it and others are given it. */
#ifndef DLOCK_LOCK_TOKEN_H
#define DLOCK_LOCK_TOKEN_H

#include <stdbool.h>

#include "lock/lock.h"

struct failure;

/* NULL when it may be one, else the reason as half a sentence. Static text. Pure. */
const char *token_fault(const char *token);

/* Reads it from the first line of a file descriptor, up to the first blank: what `acquire` printed
 * will do. False with EXIT_USAGE or EXIT_SYSTEM. */
bool token_read(int fd, char token[static LOCK_TOKEN_SIZE], struct failure *failure);

#endif
