/* Where a server is: a host and a port. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PLACE_HOST 256
#define PLACE_TEXT (PLACE_HOST + 32)

struct place {
	char host[PLACE_HOST]; /* a name or an address without brackets; "": none */
	int port;
};

/* Reads HOST:PORT, an address of IPv6 without brackets too; the host may be empty. Pure. */
bool place_read(struct place *place, const char *text);

/* Writes HOST:PORT, with an address of IPv6 in brackets; what has no room is cut, as by
 * snprintf(3), and the length returned as by that. Pure. */
int place_write(char *text, size_t size, const char *host, int port);
