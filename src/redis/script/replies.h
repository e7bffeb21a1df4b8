/* What the scripts answer, read into what lock.h has for it. */
#ifndef DLOCK_REDIS_SCRIPT_REPLIES_H
#define DLOCK_REDIS_SCRIPT_REPLIES_H

#include <stdbool.h>

#include "lock/lock.h"
#include "redis/script/owner_record.h"

struct link;
struct reply;

/* What a server says of time, within limits that leave room to reckon with it: spans in ms, moments
 * in us, places in a queue. */
#define REPLIES_MS_MOST   (INT64_C(100) * 366 * 86400000)
#define REPLIES_US_MOST   OWNER_RECORD_US_MOST
#define REPLIES_RANK_MOST 1000000

/* So long after a moment that a server named one looks again: it is surely past then. */
#define REPLIES_LOOK_AFTER (5 * NANOS_PER_MS)

/* Everything but handed[], which is large. */
void replies_clear(struct lock_answer *answer);

/* Reads a list of tokens; at most LOCK_HANDED_MOST. */
void replies_read_handed(const struct reply *list, struct lock_answer *answer);

/* All of an answer to a request to acquire, but for LOCK_FAILED's cause where there was no reply.
 */
void replies_read_take(
	const struct link *link, const struct reply *reply, struct lock_answer *answer);

/* False: it is none of the answers of detached.lua, by which nothing was changed. Else LOCK_LOST,
 * with the reason. */
bool replies_read_denial(const struct reply *reply, struct lock_answer *answer);

#endif
