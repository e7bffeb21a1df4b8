/*
 * A session with ZooKeeper, by libzookeeper_st, in one thread; nothing here blocks beyond its
 * deadline. A session outlives its connections: to attach is to open a connection for it.
 *
 * The proof that a session lives: the leader alone ends sessions. Pings are answered, and may be
 * answered, by a server that has lost its leader. Attaching moves the session's end, at the leader.
 * But a leader that has lost its followers may not know so yet; a write that follows, on the same
 * connection, is answered only if a majority had it. Both together prove that no other client can
 * be granted anything of ours before attached_at plus ttl_ms.
 */
#pragma once

#include <zookeeper/zookeeper.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "lock/lock.h"

#define NODE_SIZE  2304 /* a path: CHROOT, and a NAME of which each byte may be %XX */
#define DATA_SIZE  1024 /* of a node's; what is longer is cut */
#define REPLY_MOST 4    /* so many are awaited together */

struct lookup;

/* The answer to one request. */
struct zookeeper_reply {
	bool done;
	int rc; /* ZOK, ZNONODE, ZNODEEXISTS, ZBADVERSION, ZNOTEMPTY */
	struct Stat stat;
	char text[DATA_SIZE]; /* a node's data, or the path of a created one */
	char **names;         /* owned; children */
	size_t name_count;
};

/* Begins as zeros with server. */
struct zookeeper_session {
	const struct server *server;              /* borrowed */
	size_t at;                                /* which of its endpoints is asked */
	struct lookup *lookup;                    /* owned; of its address */
	zhandle_t *handle;                        /* owned; NULL: not attached */
	int fd;                                   /* handle's; -1: it has none */
	clientid_t id;                            /* client_id 0: there is no session yet */
	int64_t wanted_ms;                        /* the TTL that it was attached for, */
	int ttl_ms;                               /* and the one that the servers gave it */
	nanos attached_at;                        /* before the request to attach left, */
	nanos begun_at;                           /* and the first of all; 0: another process's */
	int state;                                /* of the handle, before it read what came last */
	bool told;                                /* a watch has fired since it was attached */
	size_t asked;                             /* how many requests are under way */
	struct zookeeper_reply reply[REPLY_MOST]; /* in the order of the requests */
};

/* Each server tells the leader of a session's TTL up to half a tick after it was used there, or
 * begun anywhere (a tick is 2 s by default). So if it is attached for another TTL before, or
 * elsewhere, the leader may come back to the former one. */
#define ZOOKEEPER_SESSION_SETTLES_IN (1200 * NANOS_PER_MS)

/* Until when that may be, for a session that we have begun; 0: only one server is known. */
nanos zookeeper_session_settles_at(const struct zookeeper_session *session);

/* Attaches the session, or makes one if there is none, with that TTL (0: a short one): over a
 * new connection, to the first endpoint that answers. The servers may make it a longer or a shorter
 * one. LOCK_GRANTED; LOCK_LOST: the session has ended; LOCK_TIMEOUT, LOCK_CANCELLED, LOCK_FAILED.
 */
enum lock_result zookeeper_session_attach(struct zookeeper_session *session, int64_t ttl_ms,
	struct deadline deadline, struct failure *failure);

/* Requests, sent by zookeeper_session_await: at most REPLY_MOST at a time. */
void zookeeper_session_sync(struct zookeeper_session *session, const char *path);
void zookeeper_session_children(struct zookeeper_session *session, const char *path, bool watch);
void zookeeper_session_get(struct zookeeper_session *session, const char *path, bool watch);
void zookeeper_session_set(struct zookeeper_session *session, const char *path, const char *data);
void zookeeper_session_create(
	struct zookeeper_session *session, const char *path, const char *data, int flags);
void zookeeper_session_delete(struct zookeeper_session *session, const char *path);
/* Both or neither; operations must last until the answer. */
void zookeeper_session_multi(struct zookeeper_session *session, int count,
	const zoo_op_t *operations, zoo_op_result_t *results);

/* Awaits all answers, in session->reply from 0 on; they last until the next request is awaited.
 * LOCK_GRANTED, or as zookeeper_session_attach; the session is not attached then. */
enum lock_result zookeeper_session_await(
	struct zookeeper_session *session, struct deadline deadline, struct failure *failure);

/* Awaits a watch: LOCK_GRANTED, or as zookeeper_session_await. The servers hear that we live
 * meanwhile. */
enum lock_result zookeeper_session_listen(
	struct zookeeper_session *session, struct deadline deadline, struct failure *failure);

/* Drops the connection without a word: the session goes on. Another process may have it. */
void zookeeper_session_leave(struct zookeeper_session *session);

/* Ends the session, if it is attached, and with it all that it has made; does not wait for it. */
void zookeeper_session_end(struct zookeeper_session *session);

/* Frees what is left; the session goes on. */
void zookeeper_session_close(struct zookeeper_session *session);
