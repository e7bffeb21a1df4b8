/* From a host to addresses, within the caller's deadline. */
#pragma once

#include <stddef.h>
#include <sys/socket.h>

#include "base/deadline.h"
#include "net/io_result.h"

struct failure;
struct lookup;

#define ADDRESSES_MOST 8

struct addresses {
	size_t count;
	struct {
		struct sockaddr_storage address;
		socklen_t length;
	} list[ADDRESSES_MOST];
};

/* Addresses of host: itself when it is numeric; 127.0.0.1 and ::1 for "localhost" (RFC 6761, 6.3);
 * else what getaddrinfo(3) says, which no time limit binds: so it runs in a thread, and when
 * patience ends *lookup keeps what is under way for the next call. *lookup is NULL at first; it
 * belongs to one host, and remembers its addresses: if they cannot be looked up again, or not
 * within a second, it is those of before. IO_FAILED: there is no such host. */
enum io_result resolve_host(struct lookup **lookup, const char *host, int port,
	struct deadline deadline, struct addresses *addresses, struct failure *failure);

/* Readable once what is under way is done; -1: nothing is. */
int resolve_fd(const struct lookup *lookup);

/* Leaves the thread, if there is one, to itself. NULL is fine. */
void resolve_abandon(struct lookup *lookup);
