/*
 * The contenders for one lock, as etcd has them: keys PREFIX+NAME/LEASE in the order in which they
 * were created, as `etcdctl lock` and Go's concurrency.Mutex have them. Each is bound to a lease.
 * The value of dlock's own says what it is; any other value is a foreign client's. Keys travel in
 * base64, and stay so here. Pure.
 */
#pragma once

#include <jansson.h>

#include "base/clock.h"
#include "lock/lock.h"

#define KEY_SIZE 2400 /* a prefix, a name with each byte as %XX, a lease: in base64 */

enum contender_state {
	CONTENDER_FOREIGN, /* a holder or waiter of another kind: as good as an exclusive one */
	CONTENDER_WAITING, /* until it has marked its key as holding */
	CONTENDER_HOLDING,
	CONTENDER_OVER,     /* it has given the lock back, but that stays: for those inside, or for
			     * --at-least */
	CONTENDER_INSIDE,   /* inside another holder, whose place counts */
	CONTENDER_RELEASED, /* about to be removed */
};

struct contender {
	const char *key; /* borrowed, as the token */
	const char *token;
	int64_t create, mod, lease;
	enum contender_state state;
	enum lock_mode mode;
	int permits;
	bool detached, hold;
	int64_t since_us; /* when it came, or was granted the lock: its own wall clock */
	int64_t ttl_ms;
	uint64_t fence;
	int64_t around; /* INSIDE: the create revision of the one around it */
	json_t *record; /* owned; NULL: foreign */
	/* A waiter's notes: */
	nanos until;      /* a holder trusts in the lock no longer than that */
	bool doubt, gone; /* it is not there any more: it is to be found out why, or is known */
};

struct queue {
	json_t *answer;         /* owned */
	struct contender *list; /* owned; by create revision */
	size_t count;
	int64_t revision; /* of all etcd, when this was read */
};

/* The range of a lock's keys, or with name NULL of all locks' under the prefix. */
void key_range(
	const char *prefix, const char *name, char from[static KEY_SIZE], char to[static KEY_SIZE]);

/* The key of a contender that began with that lease. */
void key_own(const char *prefix, const char *name, int64_t lease, char key[static KEY_SIZE]);

/* The name that a key stands for; owned by the caller; NULL: it is no lock's. */
char *key_name(const char *key, const char *prefix);

/* A contender's value, in base64; owned by the caller. */
char *contender_value(const struct contender *contender, const struct owner *owner);

/* The same contender's in another state. */
char *contender_rewrite(const struct contender *contender);

void contender_owner(const struct contender *contender, struct owner *owner);

/* Reads the kvs of an answer, of which it becomes the owner. */
bool queue_read(struct queue *queue, json_t *answer, const json_t *kvs);
void queue_free(struct queue *queue);

struct contender *queue_find(const struct queue *queue, const char *key);
struct contender *queue_find_token(const struct queue *queue, const char *token);
struct contender *queue_find_created(const struct queue *queue, int64_t create);

/* The last ahead of `own` (NULL: of a newcomer) that keeps it from holding the lock; NULL: none
 * does. *rank: how many wait ahead of it; *ahead: how many there are of any kind. */
const struct contender *queue_obstacle(const struct queue *queue, const struct contender *own,
	enum lock_mode mode, int permits, int *rank, int *ahead);

/* A number of an answer, which may be a string. 0: it is not there. */
int64_t json_number(const json_t *object, const char *name);
