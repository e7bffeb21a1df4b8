/*
 * The contenders for one lock, as etcd has them: keys PREFIX+NAME/LEASE in the order in which they
 * were created, as `etcdctl lock` and Go's concurrency.Mutex have them. Each is bound to a lease.
 * The value of dlock's own says what it is; any other value is a foreign client's. Keys travel in
 * base64, and stay so here. Pure.
 */
#pragma once

#include <jansson.h>

#include "base/clock.h"
#include "lock/contenders.h"

#define ETCD_KEY_SIZE 2400 /* a prefix, a name with each byte as %XX, a lease: in base64 */

struct etcd_contender {
	struct contender is; /* first; its texts are borrowed; the place is its create revision */
	const char *key;     /* borrowed */
	int64_t mod, lease;
	int64_t least_ms; /* detached: what was left of --at-least as this lease began */
	json_t *record;   /* owned; NULL: foreign */
};

struct etcd_queue {
	struct contenders all; /* first; of struct etcd_contender */
	json_t *answer;        /* owned */
	int64_t revision;      /* of all etcd, when this was read */
	int64_t format;        /* the highest that is in use (LOCK_FORMAT) */
};

/* The range of a lock's keys, or with name NULL of all locks' under the prefix. */
void etcd_key_range(const char *prefix, const char *name, char from[static ETCD_KEY_SIZE],
	char to[static ETCD_KEY_SIZE]);

/* The key of a contender that began with that lease. */
void etcd_key_own(
	const char *prefix, const char *name, int64_t lease, char key[static ETCD_KEY_SIZE]);

/* The name that a key stands for; owned by the caller; NULL: it is no lock's. */
char *etcd_key_name(const char *key, const char *prefix);

/* A contender's value, in base64; owned by the caller. owner: unless the contender has a text of
 * it. */
char *etcd_contender_value(const struct etcd_contender *contender, const struct owner *owner);

/* Reads the kvs of an answer, of which it becomes the owner. */
bool etcd_queue_read(struct etcd_queue *queue, json_t *answer, const json_t *kvs);
void etcd_queue_free(struct etcd_queue *queue);

struct etcd_contender *etcd_queue_at(const struct etcd_queue *queue, size_t i);

/* NULL: there is none. */
struct etcd_contender *etcd_queue_find(const struct etcd_queue *queue, const char *key);

/* A number of an answer, which may be a string. 0: it is not there. */
int64_t json_number(const json_t *object, const char *name);
