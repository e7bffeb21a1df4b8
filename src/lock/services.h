/* The lock services that this dlock knows: the one table that names them. */
#ifndef DLOCK_LOCK_SERVICES_H
#define DLOCK_LOCK_SERVICES_H

struct failure;
struct lock_service;
struct server;

/* Reads a URL. NULL with failure: EXIT_USAGE (the value quoted, password left out) when it is
 * malformed or no service has its scheme; EXIT_SYSTEM when memory is short. server_free() with what
 * is returned. Pure. */
struct server *services_read_url(const char *url, struct failure *failure);

/* What speaks what the URL's scheme stands for. NULL with failure: this program cannot. */
const struct lock_service *services_find(const struct server *server, struct failure *failure);

#endif
