/* The answers of the scripts, read into what lock.h has for them. */
#pragma once

#include "lock/lock.h"
#include "redis/script/owner_record.h"

struct link;
struct reply;

/* The limits of a server's numbers, which leave room to reckon with them: spans in ms, moments in
 * us, places in a queue. */
#define REPLIES_MS_MOST   (INT64_C(100) * 366 * 86400000)
#define REPLIES_US_MOST   OWNER_RECORD_US_MOST
#define REPLIES_RANK_MOST 1000000

#define HANDED_MOST     64
#define REPLIES_FOREIGN "another Redis client"
#define REPLIES_EMPTY   "-" /* holder_token of a foreign client whose value is empty */
/* So long after a moment that a server named one looks again: it is surely past then. */
#define REPLIES_LOOK_AFTER (5 * NANOS_PER_MS)

/* The part of a reply that a keeper's front needs as well (lock_answer.own). */
struct replies_own {
	uint64_t generation; /* of a batch of sharers; the fencing token of an exclusive lock */
	int64_t since_us;    /* the grant, by the server's clock */
	uint64_t ticket;     /* LOCK_BUSY: our place in the queue; 0: none */
	bool claimed;        /* LOCK_BUSY: the holder has it; else, on a quorum, it only tries */
};

const struct replies_own *replies_own(const struct lock_answer *answer);

/* The tokens that a request handed the lock to. */
struct handed {
	int count;
	char tokens[HANDED_MOST][LOCK_TOKEN_SIZE];
};

/* Reads a list of tokens; at most HANDED_MOST. */
void replies_read_handed(const struct reply *list, struct handed *handed);

/* All of an answer to a request to acquire, into one that is zero; but for LOCK_FAILED's cause if
 * there was no reply. */
void replies_read_take(const struct link *link, const struct reply *reply,
	struct lock_answer *answer, struct handed *handed);

/* False: it is none of the answers of detached.lua, by which nothing was changed. Else LOCK_LOST,
 * with the reason. */
bool replies_read_denial(const struct reply *reply, struct lock_answer *answer);
