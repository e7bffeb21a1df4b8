#include "net/place.h"

#include <bsd/stdlib.h>
#include <stdio.h>
#include <string.h>

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

int place_write(char *text, size_t size, const char *host, int port)
{
	return snprintf(text, size, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
}
