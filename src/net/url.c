#include "net/url.h"

#include <stdlib.h>
#include <string.h>

/* The first piece between a ':' and the end of a host that could not be a port; NULL: none. */
static const char *find_bad_port(const char *authority)
{
	const char *at = authority + strcspn(authority, ":[/?");

	while (*at == ':' || *at == '[') {
		if (*at == '[') {
			at += strcspn(at, "]/?");
		} else {
			at++;
			if (strchr(",/?", at[strspn(at, "0123456789")]) == NULL)
				return at;
		}
		at += strcspn(at, ":[/?");
	}
	return NULL;
}

bool url_find_password(const char *text, size_t *from, size_t *length)
{
	const char *scheme_end = strstr(text, "://");
	const char *start = scheme_end == NULL ? text : scheme_end + 3;
	const char *at = strrchr(start, '@');
	const char *password;

	if (at == NULL) {
		password = find_bad_port(start);
		at = password == NULL ? NULL : password + strlen(password);
	} else {
		password = memchr(start, ':', (size_t)(at - start));
		password = password == NULL ? NULL : password + 1;
	}
	if (password == NULL)
		return false;
	*from = (size_t)(password - text);
	*length = (size_t)(at - password);
	return true;
}

/* Ends a piece at a delimiter and returns what follows; NULL if there is none. */
static char *cut(char *delimiter)
{
	if (delimiter == NULL)
		return NULL;
	*delimiter = '\0';
	return delimiter + 1;
}

const char *url_split(struct url *url, char *copy)
{
	char *rest, *hosts;

	*url = (struct url){.copy = copy, .size = strlen(copy)};
	for (const char *byte = copy; *byte != '\0'; byte++) {
		if ((unsigned char)*byte <= ' ' || *byte == 0x7F)
			return "a blank or a control character";
		if (*byte == '#')
			return "a '#' (%23 stands for it)";
	}
	rest = strstr(copy, "://");
	if (rest == NULL)
		return "no scheme";
	*rest = '\0';
	rest += 3;
	url->scheme = copy;
	url->query = cut(strchr(rest, '?'));
	url->path = cut(strchr(rest, '/'));
	hosts = cut(strrchr(rest, '@'));
	url->hosts = hosts == NULL ? rest : hosts;
	if (hosts != NULL) {
		url->password = cut(strchr(rest, ':'));
		url->user = rest;
	}
	return NULL;
}

void url_close(struct url *url)
{
	if (url->copy != NULL)
		explicit_bzero(url->copy, url->size);
	free(url->copy);
	*url = (struct url){0};
}

bool url_decode(char *text)
{
	char *to = text;

	for (const char *from = text; *from != '\0'; from++) {
		char digits[3] = "";

		if (*from != '%') {
			*to++ = *from;
			continue;
		}
		strncat(digits, from + 1, 2);
		if (strspn(digits, "0123456789abcdefABCDEF") != 2)
			return false;
		*to = (char)strtoul(digits, NULL, 16);
		if (*to++ == '\0')
			return false;
		from += 2;
	}
	*to = '\0';
	return true;
}
