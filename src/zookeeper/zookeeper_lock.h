/*
 * One lock in ZooKeeper, as one holder or waiter sees it: an ephemeral node among the contenders of
 * zookeeper_queue.h, with a session of its own. While it waits its session has a short TTL, so that
 * it stops the others for no longer if it is killed. With the grant it attaches its session anew,
 * with the whole TTL, and writes its node: that is the proof of zookeeper_session.h. So does each
 * renewal, with a write that changes nothing.
 */
#pragma once

#include "lock/contest.h"
#include "lock/service.h"
#include "zookeeper/zookeeper_queue.h"

#define ZOOKEEPER_WAIT_TTL 6000 /* ms: of a waiter's session, unless the servers want more */

#define ZOOKEEPER_FOREIGN "another ZooKeeper client"

enum zookeeper_state { ZOOKEEPER_NONE, ZOOKEEPER_WAITING, ZOOKEEPER_HOLDING };

struct zookeeper_lock {
	struct lock lock; /* first: struct lock_service's functions get this */
	struct contest contest;
	struct lock_request request;
	struct zookeeper_session session;
	char path[NODE_SIZE]; /* the lock's node */
	char id[ID_SIZE];
	char own[NODE_SIZE]; /* the own node's path; "": none is known */
	enum zookeeper_state state;
	bool proved;              /* the session lives for the TTL, and the grant is written */
	int64_t since_us;         /* of the grant */
	uint64_t fence;           /* the own node's czxid */
	pid_t named;              /* the owner's process, as its record has it */
	char obstacle[NODE_SIZE]; /* a waiter's: the path of what it waits for; "": any of them */
	uint64_t seen;            /* then: of the contenders that were there */
	bool watches;             /* then: the watches are set, and have told nothing yet */
	nanos tell_again_at;      /* then: when the session's shorter TTL is told again; 0: not */
};

/* Attaches the session if it is not. LOCK_LOST: a former one has ended, and our node with it. */
enum lock_result zookeeper_attach(struct zookeeper_lock *z, int64_t ttl_ms,
	struct deadline deadline, struct failure *failure);

/* Reads the contenders, as the leader has them. queue is to be freed in any case. */
enum lock_result zookeeper_read(struct zookeeper_session *session, const char *path,
	struct deadline deadline, struct zookeeper_queue *queue, struct failure *failure);

/* Reads the record of a contender of that lock, once; LOCK_GONE: it is not there any more. */
enum lock_result zookeeper_look_at(struct zookeeper_session *session, const char *lock,
	struct zookeeper_contender *c, struct deadline deadline, struct failure *failure);

/* The path of a contender's node. */
void zookeeper_path(const char *lock, const char *node, char path[static NODE_SIZE]);

/* The own record. */
void zookeeper_own_record(const struct zookeeper_lock *z, char text[static DATA_SIZE]);

/* A fresh attempt from here on: a new token, unless the request has one. */
void zookeeper_begin(struct lock *lock);

/* struct contest_ops's. */
enum lock_result zookeeper_end(struct lock *lock, const struct contender *c,
	struct deadline deadline, struct failure *failure);
extern const struct contest_ops zookeeper_contest;

/* struct lock_service's. */
lock_take_function zookeeper_take;
lock_wait_function zookeeper_wait;
lock_check_function zookeeper_check;
lock_list_function zookeeper_list;

extern const struct lock_service zookeeper_service;

/* Writes which library speaks to the service, and its version. */
void zookeeper_library(char *text, size_t size);
