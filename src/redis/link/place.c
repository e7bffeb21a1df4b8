#include "redis/link/place.h"

#include <bsd/stdlib.h>
#include <string.h>

#include "net/server.h"

bool place_read(struct place *place, const char *text)
{
	const char *colon = strrchr(text, ':');
	const char *error = NULL;
	size_t length = colon ? (size_t)(colon - text) : 0;

	if (!colon || length >= sizeof(place->host))
		return false;
	memcpy(place->host, text, length);
	place->host[length] = '\0';
	place->port = (int)strtonum(colon + 1, 1, 65535, &error);
	return error == NULL;
}
