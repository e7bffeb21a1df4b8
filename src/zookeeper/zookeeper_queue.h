/*
 * A lock's node CHROOT/NAME, and what its children are: contenders, in the order of their numbers.
 *
 *   HEX__lock__N   HEX__rlock__N       kazoo's Lock and WriteLock, ReadLock; dlock's, too
 *   _c_UUID-lock-N                     Curator's InterProcessMutex (?style=curator)
 *   _c_UUID-__WRIT__N   -__READ__N     its InterProcessReadWriteLock (?style=curator-rw)
 *   HEX-pK__lock__N                    dlock's with K permits
 *   ~inside-HEX-N                      dlock's: it has the lock inside contender N's
 *
 * HEX is the random end of an owner token. A contender holds the lock if nothing before it is in
 * its way; nothing can come in between. What it is for people stands in its node, as a record.
 */
#pragma once

#include "zookeeper/zookeeper_session.h"

#define ID_SIZE 33 /* 32 hex digits */

struct contender {
	const char *node; /* the queue's; its name below the lock's */
	char id[ID_SIZE]; /* "": a foreign one without */
	int32_t place;    /* inside: that of the one around it */
	bool inside;
	enum lock_mode mode;
	int permits;
};

struct queue {
	struct contender *list; /* owned; by place */
	size_t count;
	char **names; /* owned */
	size_t name_count;
};

/* What stands in a node of ours. */
struct record {
	struct owner owner;
	bool ours; /* else a foreign client's, and nothing is known */
	bool detached;
	bool hold; /* of a `dlock hold` for owner.pid */
	bool over; /* its owner has released it: others are inside, or --at-least keeps it */
	int64_t ttl_ms;
	int64_t since_us; /* of the grant, or of the beginning of its wait; its host's wall clock */
	clientid_t session; /* whose node it is: as secret as the owner token, which is the node's
			       name */
};

/* CHROOT/NAME. A prefix that is not the usual one is a part of NAME. */
void queue_path(const struct server *server, const char *prefix, const char *name,
	char path[static NODE_SIZE]);

/* The NAME that a child of CHROOT stands for, in place; false: it has another prefix. */
bool queue_name(char *child, const char *prefix, const char **name);

/* The random end of a token. */
void queue_id(const char *token, char id[static ID_SIZE]);

/* The name of a new contender's node, to which ZooKeeper adds the number. */
void queue_node(const struct server *server, const struct lock_request *request, const char *id,
	char node[static NODE_SIZE]);

/* The children of a lock, whose names become the queue's. False with failure: one of them is no
 * contender. */
bool queue_read(struct queue *queue, struct reply *children, struct failure *failure);
void queue_free(struct queue *queue);

/* NULL: there is none. */
const struct contender *queue_find(const struct queue *queue, const char *id, bool inside);

/* The last before `own` (NULL: before a newcomer) that keeps it from holding the lock; NULL: it
 * holds it. *rank: how many of those before it wait; *ahead: how many there are. */
const struct contender *queue_obstacle(const struct queue *queue, const struct contender *own,
	enum lock_mode mode, int permits, int *rank, int *ahead);

/* Whether it is no waiter, nor inside another. */
bool queue_holds(const struct queue *queue, const struct contender *contender);

void record_write(const struct record *record, char text[static DATA_SIZE]);
void record_read(struct record *record, const char *text);
