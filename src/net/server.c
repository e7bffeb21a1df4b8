#include "net/server.h"

#include <arpa/inet.h>
#include <bsd/stdlib.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/failure.h"
#include "net/password.h"

#define HOST_MOST 253 /* bytes of a name in DNS */

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

/* The text before the '@', if no ':' is in it. */
static bool find_user(const char *text, size_t *from, size_t *length)
{
	const char *start = strstr(text, "://");
	size_t size = start ? strcspn(start + 3, ":@/?") : 0;

	if (!start || start[3 + size] != '@')
		return false;
	*from = (size_t)(start + 3 - text);
	*length = size;
	return true;
}

bool server_fault(const struct server_reading *reading, const char *what)
{
	const char *text = reading->text;
	size_t from, length;

	if (!url_find_password(text, &from, &length) && !find_user(text, &from, &length))
		return failure_set(
			reading->failure, EXIT_USAGE, "%s in the server URL '%s'", what, text);
	return failure_set(reading->failure, EXIT_USAGE, "%s in the server URL '%.*s...%s'", what,
		(int)from, text, text + from + length);
}

void server_hide_user(struct server *server)
{
	size_t from, length;

	if (find_user(server->text, &from, &length))
		memmove(server->text + from, server->text + from + length + 1,
			strlen(server->text + from + length + 1) + 1);
}

static bool out_of_memory(const struct server_reading *reading)
{
	return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
}

/* The URL as messages may show it: without the password. */
static bool keep_text(const struct server_reading *reading)
{
	const char *text = reading->text;
	const char *password = reading->url.password;
	const char *end;

	if (password == NULL)
		return (reading->server->text = strdup(text)) != NULL || out_of_memory(reading);
	end = text + (password - reading->url.copy) + strlen(password);
	if (asprintf(&reading->server->text, "%.*s%s", (int)(password - reading->url.copy) - 1,
		    text, end) == -1) {
		reading->server->text = NULL;
		return out_of_memory(reading);
	}
	return true;
}

bool server_keep(const struct server_reading *reading, char *text, char **out)
{
	free(*out);
	*out = NULL;
	if (text == NULL || *text == '\0')
		return true;
	if (!url_decode(text))
		return server_fault(
			reading, "a '%' that stands for no character (%25 is the '%' itself)");
	*out = strdup(text);
	return *out != NULL || out_of_memory(reading);
}

/* Ends a piece at a delimiter and returns what follows; NULL if there is none. */
static char *cut(char *delimiter)
{
	if (delimiter == NULL)
		return NULL;
	*delimiter = '\0';
	return delimiter + 1;
}

bool server_split(struct server_reading *reading)
{
	struct url *url = &reading->url;
	char *rest, *hosts;

	url->copy = strdup(reading->text);
	if (url->copy == NULL)
		return out_of_memory(reading);
	for (const char *byte = url->copy; *byte != '\0'; byte++) {
		if ((unsigned char)*byte <= ' ' || *byte == 0x7F)
			return server_fault(reading, "a blank or a control character");
		if (*byte == '#')
			return server_fault(reading, "a '#' (%23 stands for it)");
	}
	rest = strstr(url->copy, "://");
	if (rest == NULL)
		return server_fault(reading, "no scheme");
	rest += 3;
	url->query = cut(strchr(rest, '?'));
	url->path = cut(strchr(rest, '/'));
	hosts = cut(strrchr(rest, '@'));
	url->hosts = hosts == NULL ? rest : hosts;
	if (hosts != NULL) {
		url->password = cut(strchr(rest, ':'));
		url->user = rest;
	}
	return keep_text(reading) && server_keep(reading, url->user, &reading->server->user) &&
	       server_keep(reading, url->password, &reading->server->password);
}

void server_split_end(struct server_reading *reading)
{
	if (reading->url.copy != NULL)
		explicit_bzero(reading->url.copy, strlen(reading->text));
	free(reading->url.copy);
}

bool server_read_number(const char *text, int least, int most, int *out)
{
	const char *error;

	if (!isdigit((unsigned char)*text))
		return false;
	*out = (int)strtonum(text, least, most, &error);
	return error == NULL;
}

bool place_read(struct place *place, const char *text)
{
	const char *colon = strrchr(text, ':');
	size_t length = colon ? (size_t)(colon - text) : sizeof(place->host);

	if (length >= sizeof(place->host))
		return false;
	snprintf(place->host, sizeof(place->host), "%.*s", (int)length, text);
	return server_read_number(colon + 1, 1, 65535, &place->port);
}

int place_write(char *text, size_t size, const char *host, int port)
{
	return snprintf(text, size, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
}

/* An address of IPv6, perhaps with a zone: fe80::1%25eth0 (RFC 6874). */
static bool read_ipv6(const struct server_reading *reading, char *text, char **host)
{
	struct in6_addr address;
	char plain[INET6_ADDRSTRLEN];
	size_t length;

	if (!server_keep(reading, text, host))
		return false;
	if (*host != NULL) {
		length = strcspn(*host, "%");
		snprintf(plain, sizeof(plain), "%.*s", (int)length, *host);
		if (length < sizeof(plain) && inet_pton(AF_INET6, plain, &address) == 1 &&
			strcmp(*host + length, "%") != 0)
			return true;
	}
	return server_fault(reading, "no IPv6 address between the brackets");
}

static bool read_name(const struct server_reading *reading, char *text, char **host)
{
	if (*text == '\0')
		return server_fault(reading, "no host");
	if (strlen(text) > HOST_MOST)
		return server_fault(reading, "a host of more than 253 bytes");
	for (const char *byte = text; *byte != '\0'; byte++)
		if (!isalnum((unsigned char)*byte) && strchr("-._", *byte) == NULL)
			return server_fault(reading, "a host with characters that no host has");
	return server_keep(reading, text, host);
}

static bool read_endpoint(
	const struct server_reading *reading, char *text, int port, struct endpoint *endpoint)
{
	char *close = *text == '[' ? strchr(text, ']') : NULL;
	char *colon = strchr(close == NULL ? text : close, ':');

	if (close != NULL && close[1] != '\0' && colon != close + 1)
		return server_fault(reading, "no port after ']'");
	endpoint->port = port;
	if (colon != NULL) {
		*colon = '\0';
		if (!server_read_number(colon + 1, 1, 65535, &endpoint->port))
			return server_fault(reading, "a port that is no number from 1 to 65535");
	}
	if (close == NULL)
		return read_name(reading, text, &endpoint->host);
	*close = '\0';
	return read_ipv6(reading, text + 1, &endpoint->host);
}

static bool is_listed(const struct server *server, const struct endpoint *endpoint)
{
	for (const struct endpoint *other = server->endpoints; other < endpoint; other++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): both were read */
		if (other->port == endpoint->port && strcasecmp(other->host, endpoint->host) == 0)
			return true;
	}
	return false;
}

bool server_read_hosts(const struct server_reading *reading, int port)
{
	struct server *server = reading->server;
	char *rest = reading->url.hosts;
	size_t most = 1;
	char *host;

	for (const char *byte = rest; *byte != '\0'; byte++)
		most += *byte == ',';
	server->endpoints = calloc(most, sizeof(*server->endpoints));
	if (server->endpoints == NULL)
		return out_of_memory(reading);
	while ((host = strsep(&rest, ",")) != NULL) {
		struct endpoint *endpoint = &server->endpoints[server->endpoint_count++];

		if (!read_endpoint(reading, host, port, endpoint))
			return false;
		if (is_listed(server, endpoint))
			return server_fault(reading, "a host that is named twice");
	}
	return true;
}

static bool set_insecure(const struct server_reading *reading, const char *text)
{
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return server_fault(reading, "an insecure= that is neither 0 nor 1");
	reading->server->insecure = *text == '1';
	return true;
}

/* Whether it is a parameter of TLS; *good: and was read. */
static bool read_for_tls(
	const struct server_reading *reading, const char *name, char *value, bool *good)
{
	struct server *server = reading->server;
	const struct {
		const char *name;
		char **out;
	} texts[] = {
		{"cacert", &server->cacert},
		{"cert", &server->cert},
		{"key", &server->key},
		{"sni", &server->sni},
	};

	if (strcmp(name, "insecure") == 0) {
		*good = set_insecure(reading, value);
		return true;
	}
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(name, texts[i].name) != 0)
			continue;
		*good = server_keep(reading, value, texts[i].out) &&
			(*texts[i].out || server_fault(reading, "a parameter without value"));
		return true;
	}
	return false;
}

static bool read_parameter(
	const struct server_reading *reading, char *name, server_parameter_reader *own)
{
	char *value = name;
	bool good, known = true;

	strsep(&value, "=");
	if (value != NULL && reading->server->tls && read_for_tls(reading, name, value, &good))
		return good;
	if (value != NULL && own && (good = own(reading, name, value, &known), known))
		return good;
	/* Without the URL: other clients take a password there. */
	return failure_set(reading->failure, EXIT_USAGE,
		"an unknown parameter '%.50s' in the server URL", name);
}

bool server_read_query(const struct server_reading *reading, server_parameter_reader *own)
{
	const struct server *server = reading->server;
	char *rest = reading->url.query;
	char *parameter;

	while ((parameter = strsep(&rest, "&")) != NULL)
		if (!read_parameter(reading, parameter, own))
			return false;
	return !server->key || server->cert || server_fault(reading, "a key= without cert=");
}

bool server_cut_parameter(
	const struct server_reading *reading, char *url, const char *name, char **out)
{
	char *at = strstr(url, name), *rest;

	if (!at || (at[-1] != '?' && at[-1] != '&'))
		return true;
	rest = at + strcspn(at, "&");
	*out = strndup(at + strlen(name), (size_t)(rest - at) - strlen(name));
	if (!*out)
		return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
	rest += *rest == '&';
	memmove(at, rest, strlen(rest) + 1);
	return true;
}

char *server_password(const struct server *server)
{
	struct failure unheard;
	char *password = NULL;

	if (server->password_file)
		password = password_read(server->password_file, &unheard);
	if (password == NULL && server->password)
		password = strdup(server->password);
	return password;
}

void server_free(struct server *server)
{
	if (server == NULL)
		return;
	for (size_t i = 0; i < server->endpoint_count; i++)
		free(server->endpoints[i].host);
	free(server->endpoints);
	password_forget(server->password);
	free(server->password_file);
	password_forget(server->path);
	free(server->user);
	free(server->setting);
	free(server->remark);
	free(server->cacert);
	free(server->cert);
	free(server->key);
	free(server->sni);
	free(server->text);
	free(server);
}

void server_scrub(char *url)
{
	size_t from, length;

	if (url_find_password(url, &from, &length))
		memset(url + from, 'x', length);
	for (char *at = strchr(url, '?'); at; at = strchr(at, '&')) {
		at++;
		if (strncmp(at, "password=", 9) == 0 || strncmp(at, "sslpassword=", 12) == 0) {
			at = strchr(at, '=') + 1;
			memset(at, 'x', strcspn(at, "&"));
		}
	}
}
