/*
 * The URLs of Redis:
 *   redis://[user[:password]@]host[:port][/db]   rediss://…?cacert=&cert=&key=&sni=&insecure=1
 *   valkey:// and valkeys:// are redis:// and rediss://
 *   unix://[user[:password]@]/path[?db=N]
 *   redis+sentinel://h1,h2,h3/service[/db]   redis+quorum://h1,h2,h3[/db]
 *   rediss+sentinel://…   rediss+quorum://…   IPv6 in brackets. User, password, path are %-decoded.
 */
#pragma once

#include <stdbool.h>

#include "lock/service.h"
#include "net/server.h"

#define QUORUM_MOST 64 /* servers; no user makes a quorum of more */

enum redis_form { REDIS_SINGLE, REDIS_SOCKET, REDIS_SENTINEL, REDIS_QUORUM };

extern const struct lock_scheme redis_schemes[], redis_quorum_schemes[];

/* struct lock_service's. server->path is Sentinel's service. EXIT_USAGE also for a port or db out
 * of range (1-65535, 0-1000000), no host, one that is listed twice, a quorum of fewer than three
 * or more than QUORUM_MOST.
 */
bool redis_read_url(struct server_reading *reading);

/* Which form a server's URL has. Pure. */
enum redis_form redis_form(const struct server *server);

/* The server number `which` of a list as one alone, whose name, HOST:PORT, is borrowed. Pure. */
void redis_one_of(
	const struct server *list, size_t which, struct server *one, char name[static PLACE_TEXT]);
