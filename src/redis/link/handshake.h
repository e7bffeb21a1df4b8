/* What goes before a session's first request on a connection, and the replies to it. */
#ifndef DLOCK_REDIS_LINK_HANDSHAKE_H
#define DLOCK_REDIS_LINK_HANDSHAKE_H

#include <stdbool.h>

#include "base/deadline.h"
#include "net/io_result.h"

struct failure;
struct link;

/* Puts AUTH, SELECT and behind Sentinels ROLE into the buffer, as far as they are needed, and
 * counts them. False: out of memory. */
bool handshake_append(struct link *link);

/* The same with ASKING, which goes before a request that ASK has sent to another node. */
bool handshake_append_asking(struct link *link);

/* Reads the replies that are still to come. The first refusal is kept in session->refusal. */
enum io_result handshake_read(struct link *link, struct deadline deadline, struct failure *failure);

#endif
