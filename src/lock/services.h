/* The lock services that this dlock knows: the one table that names them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct failure;
struct server;

#define SERVICES_TLS_PROGRAM "dlock-tls" /* the same with OpenSSL */

/* Reads a URL; of one for another program (server->program) as little as struct server says. NULL
 * with failure: EXIT_USAGE (the value quoted, password left out) when it is
 * malformed or no service has its scheme; EXIT_SYSTEM when memory is short. server_free() with what
 * is returned. Pure. */
struct server *services_read_url(const char *url, struct failure *failure);

/* NULL when every service can take a lock of that NAME, else the reason as name_fault. A NAME that
 * Redis would take for another key of dlock is refused for all ("ends like a companion key of
 * dlock"), so that it is the same lock whatever the URL is. Pure. */
const char *services_name_fault(const char *name);

/* Prints the forms that a URL may have, a service after the other, for dlock help. */
void services_print_forms(void);

/* Takes each scheme that a URL may have, "redis", also of services in other programs. */
void services_each_scheme(void (*take)(const char *scheme, void *context), void *context);

/* Tells of each service: its first scheme; the program that it is in (NULL: every program); and the
 * library that speaks to it, "libpq 17.2" (empty: none, or not in this program). */
void services_each(void (*tell)(const char *scheme, const char *program, const char *library));

/* Writes the library for which this program stands beside dlock. False: this is dlock itself. */
bool services_own_library(char *text, size_t size);

/* Whether this program can speak to the server; false as services_miss. */
bool services_serve(const struct server *server, struct failure *failure);

/* Another program is needed (server->program), and it is not there. False with failure:
 * EXIT_CONFIG, with its name. */
bool services_miss(const struct server *server, struct failure *failure);
