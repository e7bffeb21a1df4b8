/* From a host to addresses, within the caller's deadline. */
#pragma once

#include <netinet/in.h>
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
 * patience ends *lookup keeps what is under way for the next call. *lookup is NULL at first; it is
 * of all hosts that it is used for, and remembers their addresses: if a host cannot be looked up
 * again, or not within a second, it has those of before. IO_FAILED: there is no such host. */
enum io_result resolve_host(struct lookup **lookup, const char *host, int port,
	struct deadline deadline, struct addresses *addresses, struct failure *failure);

/* Writes one of the addresses as a number, without brackets or port. */
void resolve_write(
	const struct addresses *addresses, size_t which, char text[static INET6_ADDRSTRLEN]);

/* The addresses that are known, for another asker: the caller's. NULL: none, or no memory. */
struct lookup *resolve_copy(const struct lookup *lookup);

/* Forgets all addresses. A thread is left to itself. NULL is fine. */
void resolve_abandon(struct lookup *lookup);
