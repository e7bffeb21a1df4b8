/* The lock services that this dlock knows: the one table that names them. */
#ifndef DLOCK_LOCK_SERVICES_H
#define DLOCK_LOCK_SERVICES_H

struct failure;
struct lock_service;
struct server;

/* What speaks what the URL's scheme stands for. NULL with failure: none does in this dlock. */
const struct lock_service *services_find(const struct server *server, struct failure *failure);

#endif
