/*
 * Several locks as one: all or none. They are taken one after the other, in one canonical order: by
 * the bytes of their NAMEs. So callers that take several of them never wait in a circle. The locks
 * that are held are renewed while the next is waited for. To its users it is a struct lock like any
 * other (lock.h), which may answer LOCK_PART. A release gives each of them its share of the time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"

struct lock;
struct lock_request;
struct server;

/* Prepares the lock of request and those of `also`, of which request.name may be one, and which may
 * name one twice. Names and request are borrowed as lock_open does. NULL with failure. */
struct lock *lock_set_open(const struct server *server, const struct lock_request *request,
	const char *const *also, size_t also_count, struct failure *failure);

/* The fencing token of one of the locks that are held; 0: it is no set, or not one of them. */
uint64_t lock_fence(const struct lock *lock, const char *name);
