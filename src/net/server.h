/*
 * Where a lock lives, read from a URL. Pure. The forms:
 *   redis://[user[:password]@]host[:port][/db]   rediss://…?cacert=&cert=&key=&sni=&insecure=1
 *   unix://[user[:password]@]/path[?db=N]
 *   redis+sentinel://h1,h2,h3/service[/db]   redis+quorum://h1,h2,h3[/db]
 *   rediss+sentinel://…   rediss+quorum://…   IPv6 in brackets. User, password, path are %-decoded.
 */
#ifndef DLOCK_NET_SERVER_H
#define DLOCK_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>

struct failure;

enum server_scheme { SERVER_REDIS, SERVER_UNIX, SERVER_SENTINEL, SERVER_QUORUM };

struct endpoint {
	char *host; /* owned; a name, an IPv4 or IPv6 address without brackets; or a path of a unix
		       socket */
	int port;   /* 0 for a unix socket */
};

struct server {
	enum server_scheme scheme;
	bool tls;
	struct endpoint *endpoints; /* owned; one, or as many as the list names */
	size_t endpoint_count;
	char *service;  /* owned; sentinel only, else NULL */
	char *user;     /* owned; NULL: the default user */
	char *password; /* owned; NULL: none */
	int db;
	char *cacert, *cert, *key, *sni; /* owned; NULL: not given */
	bool insecure;
	char *text; /* owned; the URL as messages may show it: without the password, and what TLS
		       has behind a '?' */
};

/* Reads a URL. NULL with failure EXIT_USAGE (the value quoted, password left out) when it is
 * malformed: unknown scheme or query parameter, port or db out of range (1-65535, 0-1000000), no
 * host, one that is listed twice, a quorum of fewer than three; EXIT_SYSTEM when memory is short.
 * server_free() with what is returned; it also wipes the password (explicit_bzero). */
struct server *server_parse(const char *url, struct failure *failure);
void server_free(struct server *server);

/* Overwrites the password in a URL in place with 'x's: for argv, which ps shows. */
void server_scrub(char *url);

#endif
