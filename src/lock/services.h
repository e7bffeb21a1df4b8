/* The lock services that this dlock knows: the one table that names them. */
#pragma once

#include <stdbool.h>

struct failure;
struct server;

/* Reads a URL. NULL with failure: EXIT_USAGE (the value quoted, password left out) when it is
 * malformed or no service has its scheme; EXIT_SYSTEM when memory is short. server_free() with what
 * is returned. Pure. */
struct server *services_read_url(const char *url, struct failure *failure);

/* Prints the forms that a URL may have, a service after the other, for --help. */
void services_print_forms(void);

/* Whether this program can speak to the server. False with failure: its TLS is another program's.
 */
bool services_serve(const struct server *server, struct failure *failure);
