/* A lock on one Redis server, as its own files share it: single.c (the backend, taking), answer.c
 * (what the server says to that), replicas.c (what its replicas do), renewing.c (extending),
 * giving.c (giving back, verifying), force.c (breaking), waiting.c (listening), survey.c (looking).
 */
#ifndef DLOCK_REDIS_SINGLE_H
#define DLOCK_REDIS_SINGLE_H

#include "backend.h"
#include "redis/circle.h"
#include "redis/keys.h"
#include "redis/record.h"
#include "redis/script.h"
#include "redis/session.h"

struct reply;

/* What a server says of time, within limits that leave room to reckon with it: spans in ms, moments
 * in us, places in a queue. */
#define SINGLE_MS_MOST   (INT64_C(100) * 366 * 86400000)
#define SINGLE_US_MOST   RECORD_US_MOST
#define SINGLE_RANK_MOST 1000000

/* A server that was silent for so long in one try is gone, or the way to it. */
#define SINGLE_TRY (5 * NANOS_PER_SEC)

enum waiting_stage {
	WAITING_REST,    /* nothing is under way */
	WAITING_LEASE,   /* PEXPIRE and BLPOP were sent; the reply to the first is to come */
	WAITING_MESSAGE, /* that to BLPOP */
	WAITING_HOLDER,  /* GET was sent, with PTTL and ZRANK unless it is brief */
	WAITING_EXPIRY,  /* the reply to PTTL is to come */
	WAITING_PLACE,   /* that to ZRANK */
};

/* What a waiter knows. All moments on CLOCK_BOOTTIME. */
struct waiting {
	enum waiting_stage stage;
	nanos listen_until; /* when BLPOP ends by itself */
	nanos lease_until;  /* how long the server takes us for alive */
	int64_t told_ms;    /* look then, says a message; -1: there was none */
	unsigned looks;     /* how many there were */
	bool brief;         /* this one asks for nothing but the holder */
	bool for_room;      /* this one is also for room beside sharers */
	bool moved;         /* what the look has found so far asks for a new request */
	nanos look_at;      /* when the lock may come free by expiry; NANOS_NEVER: not by itself */
	int rank;
	bool foreign;
	char holder[LOCK_TOKEN_SIZE]; /* "": none that is known */
	uint64_t seen; /* the counter of fences: less than that, and the server lost its memory */
	nanos known_until; /* the holder's last known expiry */
	nanos span;        /* the longest it was ever seen to have */
	struct circle circle;
	nanos dropped_at; /* when the connection was lost; 0: it was not */
};

struct single {
	struct lock lock; /* first: struct backend's functions get this */
	struct lock_request request;
	struct session session;
	struct keys keys;
	char token[LOCK_TOKEN_SIZE];
	char mode[RECORD_MODE];
	char text[RECORD_TEXT];
	char once[KEYS_ONCE_SIZE]; /* "": none */
	unsigned asked_on;         /* session.dials when the request was sent: a child has the same
				      connection */
	bool asked;     /* something may be left in the server that only a release takes away */
	bool answered;  /* the server has answered a request to acquire */
	bool spent;     /* this token was given back; the next attempt takes a fresh one */
	bool loss_told; /* the server has counted it */
	uint64_t fence, generation; /* 0: not granted, as far as is known */
	int64_t since_us;
	nanos granted_at;
	uint64_t ticket; /* 0: none */
	struct waiting waiting;
};

extern const struct backend single_backend;

/* --- single.c: what the others need --- */

/* How a step ended, for callers of lock.h. Out of patience is a failure where it was not theirs. */
enum lock_result single_result(enum wire wire, struct patience patience);

/* Everything but handed[], which is large. */
void single_clear(struct lock_answer *answer);

/* The answer's result and failure. */
void single_end(struct lock_answer *answer, enum lock_result result);

/* Reads a list of tokens; at most LOCK_HANDED_MOST. */
void single_read_handed(const struct reply *list, struct lock_answer *answer);

/* Lets a moment pass before the next try; false when patience ended in it. */
bool single_pause(struct patience patience, enum lock_result *result);

/* How long the server is to keep the lock from now on. */
int64_t single_ttl_ms(const struct single *single);

/* --- renewing.c --- */

void single_renew(struct lock *lock, struct patience patience, struct lock_answer *answer);

/* --- replicas.c --- */

/* Adds to a request to acquire what request.replicas asks for. */
void replicas_ask(const struct single *single, struct call *call, struct patience patience);

/* After the answer to it: waits for the replicas. A grant that too few of them have is given back:
 * LOCK_UNREPLICATED. */
void replicas_heed(struct single *single, struct patience patience, struct lock_answer *answer);

/* --- answer.c --- */

/* All of an answer to a request to acquire, but for LOCK_FAILED's cause where there was no reply.
 */
void answer_read(
	const struct session *session, const struct reply *reply, struct lock_answer *answer);

/* --- giving.c --- */

/* Whether a token is all that is known: what was acquired detached, by another process. */
bool single_by_token(const struct single *single);

/* False: it is none of the answers of detached.lua, by which nothing was changed. Else LOCK_LOST,
 * with the reason. */
bool single_read_denial(const struct reply *reply, struct lock_answer *answer);

void single_release(struct lock *lock, const struct lock_parting *parting, struct patience patience,
	struct lock_answer *answer);
bool single_part(struct lock *lock, const struct lock_parting *parting, struct patience patience);
void single_hear(struct lock *lock, const struct lock_parting *parting, struct patience patience,
	struct lock_answer *answer);
enum lock_result single_verify(
	struct lock *lock, struct lock_answer *answer, struct patience patience);

/* --- force.c --- */

void single_force(struct lock *lock, void (*tell)(const struct lock_answer *held, void *context),
	void *context, struct patience patience, struct lock_answer *answer);

/* --- waiting.c --- */

enum lock_result single_listen(
	struct lock *lock, struct patience patience, struct failure *failure);

/* Takes over a LOCK_BUSY answer. */
void waiting_learn(struct single *single, const struct lock_answer *answer);

/* Stops listening, before any other request. */
void waiting_stop(struct single *single);

/* How long the last known holder may still come back, in ms, for the next request. */
int64_t waiting_hold_off(struct single *single);

/* --- survey.c --- */

bool single_survey(const struct server *server, const char *prefix, char *const *patterns,
	size_t pattern_count, bool idle_too,
	void (*show)(const struct lock_view *view, void *context), void *context,
	struct patience patience, struct failure *failure);
void *single_look_open(const struct server *server, const char *prefix, char *const *patterns,
	size_t pattern_count, struct failure *failure);
bool single_look(void *state, void (*show)(const struct lock_view *view, void *context),
	void *context, struct patience patience, struct failure *failure);
void single_look_close(void *state);

#endif
