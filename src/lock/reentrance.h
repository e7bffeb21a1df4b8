/*
 * Re-entrance, for a service whose client decides: which holder is one of the dlocks that the
 * asker runs under. In that case the lock is its own inside that one.
 */
#pragma once

#include "lock/lock.h"

/* One that has the lock, as the service knows it. */
struct reentrance_holder {
	char token[LOCK_TOKEN_SIZE];
	struct owner owner;
	enum lock_mode mode;
	uint64_t id;     /* unlike any other's */
	uint64_t around; /* of one inside another: the id of that one; else 0 */
	bool lives;      /* a process has it */
	bool over;       /* given back, and perhaps kept by those inside */
	bool detached, hold;
};

/* Looks at `count` of them, each read by `read` (false: that one has nothing). Returns the holder
 * around the asker, or -1: there is none, or only one that gave the lock back and has none inside.
 * The answer: LOCK_WITHIN with holder_token, whole and covered; or LOCK_FAILED with EXIT_DEADLOCK,
 * as the modes do not go together. */
int reentrance_find(const struct lock_request *request, int count,
	bool (*read)(const void *context, int i, struct reentrance_holder *holder),
	const void *context, struct lock_answer *answer);
