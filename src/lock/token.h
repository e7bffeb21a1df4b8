/* The owner token: what proves that a lock is ours. The token of a detached lock is printed by
 * `acquire` and given to others. */
#pragma once

#include "lock/lock.h"

struct failure;

/* NULL when it may be one, else the reason as half a sentence. Static text. Pure. */
const char *token_fault(const char *token);

/* A fresh one: host:pid:128 random bits in hex, of the owner that asks. */
void token_make(const struct owner *self, char token[static LOCK_TOKEN_SIZE]);

/* The token of the request, else a fresh one: for an attempt that begins. */
void token_begin(const struct lock_request *request, char token[static LOCK_TOKEN_SIZE]);

/* Whether it stands among tokens that blanks separate. Pure. */
bool token_is_among(const char *tokens, const char *token);

/* Why a detached lock is neither renewed nor released by the token that was given: EXIT_BUSY.
 * attended: it is that of a holder that still runs, or of a waiter. */
void token_refuse(bool attended, struct failure *failure);

/* Reads it from the first line of a file descriptor, up to the first blank: what `acquire` printed
 * will do. False with EXIT_USAGE or EXIT_SYSTEM. */
bool token_read(int fd, char token[static LOCK_TOKEN_SIZE], struct failure *failure);
