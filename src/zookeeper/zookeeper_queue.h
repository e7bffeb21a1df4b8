/*
 * A lock's node CHROOT/NAME, and what its children are: contenders, in the order of their numbers.
 *
 *   HEX__lock__N   HEX__rlock__N       kazoo's Lock and WriteLock, ReadLock; dlock's, too
 *   _c_UUID-lock-N                     Curator's InterProcessMutex (?style=curator)
 *   _c_UUID-__WRIT__N   -__READ__N     its InterProcessReadWriteLock (?style=curator-rw)
 *   HEX-pK__lock__N                    dlock's with K permits
 *   ~dlockF-...                        a later dlock's, whose format is F (LOCK_FORMAT)
 *
 * HEX is the random end of an owner token. A contender holds the lock if nothing before it is in
 * its way; nothing can come in between. Its node has a record of it, for people.
 */
#pragma once

#include "lock/contenders.h"
#include "zookeeper/zookeeper_session.h"

#define ID_SIZE 33 /* 32 hex digits */

/* The data of a node of ours. */
struct zookeeper_record {
	int format; /* 0: a foreign client's, and nothing is known */
	bool ours;  /* the format is this dlock's: LOCK_FORMAT */
	int64_t ttl_ms;
	int64_t since_us; /* of the grant, or of the beginning of its wait; its host's wall clock */
	clientid_t session; /* whose node it is: as secret as the owner token, which is the node's
			       name */
	struct Stat stat;
	char text[DATA_SIZE]; /* as it was read; the owner is in it */
};

struct zookeeper_contender {
	struct contender is;             /* first; the place is its number */
	const char *node;                /* the queue's; its name below the lock's */
	char id[ID_SIZE];                /* "": a foreign one without */
	struct zookeeper_record *record; /* owned; NULL: not read yet */
};

struct zookeeper_queue {
	struct contenders all; /* first; of struct zookeeper_contender */
	char **names;          /* owned */
	size_t name_count;
};

/* CHROOT/NAME. A prefix that is not the usual one is a part of NAME. */
void zookeeper_queue_path(const struct server *server, const char *prefix, const char *name,
	char path[static NODE_SIZE]);

/* The NAME that a child of CHROOT stands for, in place; false: it has another prefix. */
bool zookeeper_queue_name(char *child, const char *prefix, const char **name);

/* The random end of a token. */
void zookeeper_queue_id(const char *token, char id[static ID_SIZE]);

/* The name of a new contender's node, to which ZooKeeper adds the number. */
void zookeeper_queue_node(const struct server *server, const struct lock_request *request,
	const char *id, char node[static NODE_SIZE]);

/* The number that a node's name or path ends with. */
int64_t zookeeper_queue_place(const char *node);

/* The children of a lock, whose names become the queue's. False with failure: one of them is no
 * contender. */
bool zookeeper_queue_read(
	struct zookeeper_queue *queue, struct zookeeper_reply *children, struct failure *failure);
void zookeeper_queue_free(struct zookeeper_queue *queue);

struct zookeeper_contender *zookeeper_queue_at(const struct zookeeper_queue *queue, size_t i);

void zookeeper_record_write(const struct zookeeper_record *record, const struct owner *owner,
	char text[static DATA_SIZE]);
void zookeeper_record_read(struct zookeeper_record *record, const struct zookeeper_reply *reply);

/* Takes over what stands in the contender's node. False: out of memory. */
bool zookeeper_record_note(struct zookeeper_contender *c, const struct zookeeper_record *record);
