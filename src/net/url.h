/* A URL cut into its pieces; what they mean is server.h's trade. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct url {
	char *copy;  /* owned; the pieces lie in it and may be changed in place */
	size_t size; /* of text in copy, in bytes */
	char *scheme;
	char *user;     /* NULL: none; not decoded, as all the others */
	char *password; /* NULL: none */
	char *hosts;    /* empty: none */
	char *path;     /* the text behind the first '/'; NULL: none */
	char *query;    /* the text behind the '?'; NULL: none */
};

/* Cuts copy up: scheme://[user[:password]@][hosts][/path][?query]. NULL, or what is wrong with it
 * as a few words ("a blank or a control character"). Either way url_close() wipes and frees copy.
 */
const char *url_split(struct url *url, char *copy);
void url_close(struct url *url);

/* Decodes each %XX in place. False when one is malformed, or stands for a NUL. */
bool url_decode(char *text);

/* Where the password stands in a URL that may be malformed; false: there is none. A password that
 * was not encoded may hold any delimiter, so it is all between the first ':' and the last '@'.
 * Without an '@' it is what stands in the port's place and is no number. */
bool url_find_password(const char *text, size_t *from, size_t *length);
