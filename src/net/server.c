#include "net/server.h"

#include <arpa/inet.h>
#include <bsd/stdlib.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "base/failure.h"
#include "net/url.h"

#define DB_MOST      1000000
#define HOST_MOST    253 /* bytes of a name in DNS */
#define QUORUM_LEAST 3

/* The schemes, and the port where none is given. */
static const struct form {
	const char *name;
	enum server_scheme scheme;
	bool tls;
	int port;
} forms[] = {
	{"redis", SERVER_REDIS, false, 6379},
	{"rediss", SERVER_REDIS, true, 6379},
	{"unix", SERVER_UNIX, false, 0},
	{"redis+sentinel", SERVER_SENTINEL, false, 26379},
	{"rediss+sentinel", SERVER_SENTINEL, true, 26379},
	{"redis+quorum", SERVER_QUORUM, false, 6379},
	{"rediss+quorum", SERVER_QUORUM, true, 6379},
};

/* A URL on its way to a struct server. */
struct reading {
	const char *text;
	struct url url;
	int port; /* where none is given */
	struct server *server;
	struct failure *failure;
};

/* "What" is found in the URL and ought not to be, or misses; the URL is quoted without password. */
static bool fault(const struct reading *reading, const char *what)
{
	const char *text = reading->text;
	size_t from, length;

	if (!url_find_password(text, &from, &length))
		return failure_set(
			reading->failure, EXIT_USAGE, "%s in the server URL '%s'", what, text);
	return failure_set(reading->failure, EXIT_USAGE, "%s in the server URL '%.*s...%s'", what,
		(int)from, text, text + from + length);
}

static bool out_of_memory(const struct reading *reading)
{
	return failure_set(reading->failure, EXIT_SYSTEM, "out of memory");
}

/* Decodes text and stores a copy of it, an empty one as NULL. */
static bool keep(const struct reading *reading, char *text, char **out)
{
	free(*out);
	*out = NULL;
	if (text == NULL || *text == '\0')
		return true;
	if (!url_decode(text))
		return fault(reading, "a '%' that stands for no character (%25 is the '%' itself)");
	*out = strdup(text);
	return *out != NULL || out_of_memory(reading);
}

/* A number without sign or blanks, which strtonum(3) would let pass. */
static bool read_number(const char *text, int least, int most, int *out)
{
	const char *error;

	if (!isdigit((unsigned char)*text))
		return false;
	*out = (int)strtonum(text, least, most, &error);
	return error == NULL;
}

static bool read_db(const struct reading *reading, const char *text)
{
	if (!read_number(text, 0, DB_MOST, &reading->server->db))
		return fault(reading, "a database that is no number from 0 to 1000000");
	return true;
}

/* --- The hosts ----------------------------------------------------------------------------- */

/* An address of IPv6, perhaps with a zone: fe80::1%25eth0 (RFC 6874). */
static bool read_ipv6(const struct reading *reading, char *text, char **host)
{
	struct in6_addr address;
	char *zone;
	bool good;

	if (!keep(reading, text, host))
		return false;
	zone = *host == NULL ? NULL : strchr(*host, '%');
	if (zone != NULL)
		*zone = '\0';
	good = *host != NULL && inet_pton(AF_INET6, *host, &address) == 1;
	if (zone != NULL)
		*zone = '%';
	good = good && (zone == NULL || zone[1] != '\0');
	return good || fault(reading, "no IPv6 address between the brackets");
}

static bool read_name(const struct reading *reading, char *text, char **host)
{
	if (*text == '\0')
		return fault(reading, "no host");
	if (strlen(text) > HOST_MOST)
		return fault(reading, "a host of more than 253 bytes");
	for (const char *byte = text; *byte != '\0'; byte++) {
		if (!isalnum((unsigned char)*byte) && strchr("-._", *byte) == NULL)
			return fault(reading, "a host with characters that no host has");
	}
	return keep(reading, text, host);
}

static bool read_endpoint(const struct reading *reading, char *text, struct endpoint *endpoint)
{
	char *close = *text == '[' ? strchr(text, ']') : NULL;
	char *colon = strchr(close == NULL ? text : close, ':');

	if (close != NULL && close[1] != '\0' && colon != close + 1)
		return fault(reading, "no port after ']'");
	endpoint->port = reading->port;
	if (colon != NULL) {
		*colon = '\0';
		if (!read_number(colon + 1, 1, 65535, &endpoint->port))
			return fault(reading, "a port that is no number from 1 to 65535");
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

static bool read_hosts(const struct reading *reading)
{
	struct server *server = reading->server;
	char *rest = reading->url.hosts;
	size_t most = 1;
	char *host;

	for (const char *byte = rest; *byte != '\0'; byte++)
		most += *byte == ',';
	if (most > 1 && server->scheme == SERVER_REDIS)
		return fault(reading, "more hosts than one (+sentinel and +quorum take a list)");
	server->endpoints = calloc(most, sizeof(*server->endpoints));
	if (server->endpoints == NULL)
		return out_of_memory(reading);
	while ((host = strsep(&rest, ",")) != NULL) {
		struct endpoint *endpoint = &server->endpoints[server->endpoint_count++];

		if (!read_endpoint(reading, host, endpoint))
			return false;
		if (is_listed(server, endpoint))
			return fault(reading, "a host that is named twice");
	}
	if (server->scheme == SERVER_QUORUM && most < QUORUM_LEAST)
		return fault(reading, "fewer than the three servers that a quorum needs");
	return true;
}

static bool read_socket(const struct reading *reading)
{
	struct server *server = reading->server;
	char *path = reading->url.path;

	server->endpoints = calloc(1, sizeof(*server->endpoints));
	if (server->endpoints == NULL)
		return out_of_memory(reading);
	server->endpoint_count = 1;
	if (*reading->url.hosts != '\0' || path == NULL || *path == '\0')
		return fault(reading, "no absolute path (unix:///path)");
	/* The '/' before it was overwritten when the hosts were cut off. */
	*--path = '/';
	if (!keep(reading, path, &server->endpoints[0].host))
		return false;
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): it was just kept */
	if (strlen(server->endpoints[0].host) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return fault(reading, "a path of more than 107 bytes");
	return true;
}

/* --- The path and the query ---------------------------------------------------------------- */

/* [db], after a service/ for Sentinel. */
static bool read_path(const struct reading *reading)
{
	char *rest = reading->url.path;

	if (reading->server->scheme == SERVER_SENTINEL) {
		char *service = strsep(&rest, "/");

		if (service == NULL || *service == '\0')
			return fault(reading, "no service");
		if (!keep(reading, service, &reading->server->service))
			return false;
	}
	return rest == NULL || *rest == '\0' || read_db(reading, rest);
}

static bool set_text(const struct reading *reading, char *text, size_t field)
{
	char **out = (char **)(void *)((char *)reading->server + field);

	return keep(reading, text, out) &&
	       (*out != NULL || fault(reading, "a parameter without value"));
}

static bool set_insecure(const struct reading *reading, char *text, size_t field)
{
	(void)field;
	if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return fault(reading, "an insecure= that is neither 0 nor 1");
	reading->server->insecure = *text == '1';
	return true;
}

static bool set_db(const struct reading *reading, char *text, size_t field)
{
	(void)field;
	return read_db(reading, text);
}

static const struct parameter {
	const char *name;
	bool for_tls; /* else for a unix socket */
	bool (*set)(const struct reading *reading, char *text, size_t field);
	size_t field;
} parameters[] = {
	{"cacert", true, set_text, offsetof(struct server, cacert)},
	{"cert", true, set_text, offsetof(struct server, cert)},
	{"key", true, set_text, offsetof(struct server, key)},
	{"sni", true, set_text, offsetof(struct server, sni)},
	{"insecure", true, set_insecure, 0},
	{"db", false, set_db, 0},
};

static bool read_parameter(const struct reading *reading, char *name)
{
	const struct server *server = reading->server;
	char *value = name;

	strsep(&value, "=");
	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
		const struct parameter *parameter = &parameters[i];

		if (strcmp(name, parameter->name) != 0)
			continue;
		if (value != NULL &&
			(parameter->for_tls ? server->tls : server->scheme == SERVER_UNIX))
			return parameter->set(reading, value, parameter->field);
	}
	/* Without the URL: other clients take a password there. */
	return failure_set(reading->failure, EXIT_USAGE,
		"an unknown parameter '%.50s' in the server URL", name);
}

static bool read_query(const struct reading *reading)
{
	const struct server *server = reading->server;
	char *rest = reading->url.query;
	char *parameter;

	while ((parameter = strsep(&rest, "&")) != NULL) {
		if (!read_parameter(reading, parameter))
			return false;
	}
	return !server->key || server->cert || fault(reading, "a key= without cert=");
}

/* --- All of it ----------------------------------------------------------------------------- */

static bool read_scheme(struct reading *reading)
{
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (strcmp(reading->url.scheme, forms[i].name) != 0)
			continue;
		reading->server->scheme = forms[i].scheme;
		reading->server->tls = forms[i].tls;
		reading->port = forms[i].port;
		return true;
	}
	return fault(reading, "an unknown scheme");
}

/* The URL as messages may show it, but for what show_less() takes away: without the password. */
static bool keep_text(const struct reading *reading)
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

/* What a URL with TLS has behind the '?' says nothing of where the server is, and much else. */
static bool show_less(const struct reading *reading)
{
	if (reading->server->tls)
		/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): it was just kept */
		reading->server->text[strcspn(reading->server->text, "?")] = '\0';
	return true;
}

static bool read_url(struct reading *reading)
{
	char *copy = strdup(reading->text);
	const char *found = copy == NULL ? NULL : url_split(&reading->url, copy);

	if (copy == NULL)
		return out_of_memory(reading);
	if (found != NULL)
		return fault(reading, found);
	return read_scheme(reading) && keep_text(reading) && show_less(reading) &&
	       keep(reading, reading->url.user, &reading->server->user) &&
	       keep(reading, reading->url.password, &reading->server->password) &&
	       (reading->server->scheme == SERVER_UNIX
			       ? read_socket(reading)
			       : read_hosts(reading) && read_path(reading)) &&
	       read_query(reading);
}

struct server *server_parse(const char *url, struct failure *failure)
{
	struct reading reading = {.text = url, .failure = failure};
	bool done;

	reading.server = calloc(1, sizeof(*reading.server));
	if (reading.server == NULL) {
		out_of_memory(&reading);
		return NULL;
	}
	done = read_url(&reading);
	url_close(&reading.url);
	if (done)
		return reading.server;
	server_free(reading.server);
	return NULL;
}

void server_free(struct server *server)
{
	if (server == NULL)
		return;
	for (size_t i = 0; i < server->endpoint_count; i++)
		free(server->endpoints[i].host);
	free(server->endpoints);
	if (server->password != NULL)
		explicit_bzero(server->password, strlen(server->password));
	free(server->password);
	free(server->user);
	free(server->service);
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
}
