/* What goes before a session's first request on a connection, and the replies to it. */
#ifndef DLOCK_REDIS_GREETING_H
#define DLOCK_REDIS_GREETING_H

#include <stdbool.h>

#include "patience.h"
#include "redis/wire.h"

struct failure;
struct session;

/* Puts AUTH, SELECT and behind Sentinels ROLE into the buffer, as far as they are needed, and
 * counts them. False: out of memory. */
bool greeting_append(struct session *session);

/* The same with ASKING, which goes before a request that ASK has sent to another node. */
bool greeting_append_asking(struct session *session);

/* Reads the replies that are still to come. The first refusal is kept in session->refusal. */
enum wire greeting_read(struct session *session, struct patience patience, struct failure *failure);

#endif
