/*
 * One lock in etcd, as one holder or waiter sees it.
 *
 * Renewing is moving the own key to a new lease, by a transaction that must find the key as it was.
 * The transaction goes through raft, so its success proves that the lease was there; the answer to
 * a keepalive does not (etcd #15247). A waiter needs no proof: it keeps a short lease alive, so
 * that it stops the others for no longer if it is killed.
 */
#pragma once

#include <pthread.h>

#include "etcd/etcd_gateway.h"
#include "etcd/etcd_queue.h"
#include "lock/contest.h"
#include "lock/service.h"

#define ETCD_PLACE_TTL 3 /* s: of a place in the queue */
#define ETCD_FOREIGN   "another etcd client"
#define ETCD_TRIES     8 /* of a transaction whose conditions others changed meanwhile */

/* A watch on the own key, while the lock is held: a thread. */
struct etcd_guard {
	struct gateway gateway; /* the thread's */
	int64_t from;           /* the revision behind the grant's; 0: from now on */
	int news_fd, stop_fd;   /* owned; -1: there is no thread */
	pthread_t thread;
};

struct etcd_lock {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct contest contest;
	struct lock_request request;
	const struct server *server; /* borrowed */
	struct gateway gateway;
	char from[ETCD_KEY_SIZE], to[ETCD_KEY_SIZE], key[ETCD_KEY_SIZE];
	struct etcd_contender own; /* as it was written last; mod 0: not known to be there */
	nanos proved_at;           /* before the own lease was asked for */
	int64_t revision;          /* of what was read last */
	int64_t claim;             /* a lease of the whole TTL, for a claim that is under way; 0 */
	nanos claim_at;            /* before it was asked for */
	/* A waiter's: */
	nanos kept_at;                /* when its own lease was kept alive last; 0: never */
	char obstacle[ETCD_KEY_SIZE]; /* the key that it waits for; "": all of them */
	struct gateway stream;        /* the watch, from wait to wait until one ends */
	bool streams;                 /* there is one */
	bool keeps;                   /* a request to keep the place is under way */
	struct etcd_guard guard;
};

/* In whole seconds. */
int64_t etcd_seconds(int64_t ms);

/* A lease for the lock, from now on (lock_ttl_ms). */
int64_t etcd_seconds_to_go(const struct etcd_lock *e);

/* LOCK_GRANTED: a lease is there. With id 0 etcd chooses one. */
enum lock_result etcd_grant(struct etcd_lock *e, int64_t *id, int64_t seconds,
	struct deadline deadline, struct failure *failure);

/* LOCK_GRANTED or LOCK_GONE; its keys are removed. */
enum lock_result etcd_revoke(
	struct etcd_lock *e, int64_t id, struct deadline deadline, struct failure *failure);

/* Parts of a transaction; each is a new reference. */
json_t *etcd_when(const char *key, const char *target, int64_t revision); /* the key is unchanged */
json_t *etcd_when_empty(const struct etcd_lock *e);
json_t *etcd_put(const char *key, char *value, int64_t lease); /* frees value; lease 0: as it was */
json_t *etcd_delete(const char *key);
json_t *etcd_range(const struct etcd_lock *e);

/* A transaction; takes the references, any of which may be NULL. LOCK_GRANTED: *done says whether
 * the conditions held; *queue (NULL: nothing is read) is what a range in it has read, to be freed
 * in any case. LOCK_GONE: a lease is not there. */
enum lock_result etcd_transact(struct etcd_lock *e, json_t *when, json_t *then, json_t *otherwise,
	struct deadline deadline, bool *done, struct etcd_queue *queue, struct failure *failure);

enum lock_result etcd_read(struct etcd_lock *e, struct deadline deadline, struct etcd_queue *queue,
	struct failure *failure);

/* The own contender among those read, which it must be: by key, token and create revision. NULL: it
 * is gone, or another's. */
struct etcd_contender *etcd_find_own(struct etcd_lock *e, const struct etcd_queue *queue);

/* The value that stands for the own contender, in that state. */
char *etcd_value(struct etcd_lock *e, enum contender_state state);

/* The rest of a lease, in ms; -1: it has no end, or its end is not known. */
int64_t etcd_lease_ms(struct gateway *gateway, int64_t lease, struct deadline deadline);

/* Ends the watch of a wait, and the request that keeps the place. */
void etcd_wait_stop(struct etcd_lock *e);

void etcd_guard_stop(struct etcd_lock *e);

/* A fresh attempt from here on: a new token, and with it a new lease and key. */
void etcd_begin(struct lock *lock);

/* struct contest_ops's. */
enum lock_result etcd_end(struct lock *lock, const struct contender *c, struct deadline deadline,
	struct failure *failure);
extern const struct contest_ops etcd_contest;

/* struct lock_service's. */
lock_take_function etcd_take, etcd_renew;
lock_release_function etcd_release;
lock_wait_function etcd_wait;
lock_force_function etcd_force;
lock_check_function etcd_check;
lock_list_function etcd_list;
int etcd_watch_fd(const struct lock *lock);

extern const struct lock_service etcd_service;

/* Writes which library speaks to the service, and its version. */
void etcd_library(char *text, size_t size);
