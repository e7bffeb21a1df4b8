/* URLs of servers: what they mean, what is refused, and that no password is ever shown. */
#include "net/server.h"

#include <stdlib.h>

#include "base/failure.h"
#include "lock/services.h"
#include "redis/redis_url.h"
#include "tap.h"

#define SECRET "s3cret"

/* hosts: "host:port" of each endpoint, joined by blanks. */
static const struct {
	const char *url;
	enum redis_form form;
	bool tls;
	const char *hosts, *service, *user, *password;
	int db;
	const char *text; /* NULL: the URL itself */
} good[] = {
	{"redis://h", REDIS_SINGLE, false, "h:6379", NULL, NULL, NULL, 0, NULL},
	{"redis://h/", REDIS_SINGLE, false, "h:6379", NULL, NULL, NULL, 0, NULL},
	{"redis://h:1/0", REDIS_SINGLE, false, "h:1", NULL, NULL, NULL, 0, NULL},
	{"redis://h:65535/1000000", REDIS_SINGLE, false, "h:65535", NULL, NULL, NULL, 1000000,
		NULL},
	{"redis://127.0.0.1:7000/3", REDIS_SINGLE, false, "127.0.0.1:7000", NULL, NULL, NULL, 3,
		NULL},
	{"redis://[::1]", REDIS_SINGLE, false, "::1:6379", NULL, NULL, NULL, 0, NULL},
	{"redis://[fe80::1%25eth0]:7/2", REDIS_SINGLE, false, "fe80::1%eth0:7", NULL, NULL, NULL, 2,
		NULL},
	{"redis://a_b-c.example.com.", REDIS_SINGLE, false, "a_b-c.example.com.:6379", NULL, NULL,
		NULL, 0, NULL},
	{"redis://u:" SECRET "@h", REDIS_SINGLE, false, "h:6379", NULL, "u", SECRET, 0,
		"redis://u@h"},
	{"redis://:" SECRET "@h/4", REDIS_SINGLE, false, "h:6379", NULL, NULL, SECRET, 4,
		"redis://@h/4"},
	{"redis://u@h", REDIS_SINGLE, false, "h:6379", NULL, "u", NULL, 0, NULL},
	{"redis://u:@h", REDIS_SINGLE, false, "h:6379", NULL, "u", NULL, 0, "redis://u@h"},
	{"redis://@h", REDIS_SINGLE, false, "h:6379", NULL, NULL, NULL, 0, NULL},
	{"redis://u:p:q@r@h", REDIS_SINGLE, false, "h:6379", NULL, "u", "p:q@r", 0, "redis://u@h"},
	{"redis://a%40b:p%2F%3f%23%25@h", REDIS_SINGLE, false, "h:6379", NULL, "a@b", "p/?#%", 0,
		"redis://a%40b@h"},
	{"redis://:\xc3\xa4@h", REDIS_SINGLE, false, "h:6379", NULL, NULL, "\xc3\xa4", 0,
		"redis://@h"},
	{"rediss://h", REDIS_SINGLE, true, "h:6379", NULL, NULL, NULL, 0, NULL},
	{"unix:///run/redis.sock", REDIS_SOCKET, false, "/run/redis.sock:0", NULL, NULL, NULL, 0,
		NULL},
	{"unix:///run/r.sock?db=7", REDIS_SOCKET, false, "/run/r.sock:0", NULL, NULL, NULL, 7,
		NULL},
	{"unix:///a%20b:c@d/e,f", REDIS_SOCKET, false, "/a b:c@d/e,f:0", NULL, NULL, NULL, 0, NULL},
	{"unix://u:" SECRET "@/r", REDIS_SOCKET, false, "/r:0", NULL, "u", SECRET, 0,
		"unix://u@/r"},
	{"redis+sentinel://a,b:1,[::1]:2/main", REDIS_SENTINEL, false, "a:26379 b:1 ::1:2", "main",
		NULL, NULL, 0, NULL},
	{"rediss+sentinel://a/m%2Fn/9", REDIS_SENTINEL, true, "a:26379", "m/n", NULL, NULL, 9,
		NULL},
	{"redis+quorum://a,b,c/1", REDIS_QUORUM, false, "a:6379 b:6379 c:6379", NULL, NULL, NULL, 1,
		NULL},
	{"rediss+quorum://:" SECRET "@a,a:1,a:2,b", REDIS_QUORUM, true, "a:6379 a:1 a:2 b:6379",
		NULL, NULL, SECRET, 0, "rediss+quorum://@a,a:1,a:2,b"},
};

/* Each with a piece of what is said about it. */
static const struct {
	const char *url;
	const char *said;
} bad[] = {
	{"", "no scheme"},
	{"h", "no scheme"},
	{"localhost:6379", "no scheme"},
	{"redis:h", "no scheme"},
	{"redis:/h", "no scheme"},
	{"://h", "unknown scheme"},
	{"http://h", "unknown scheme"},
	{"REDIS://h", "unknown scheme"},
	{" ", "a blank"},
	{"/tmp/socket", "no scheme"},
	{"redis:", "no scheme"},
	{"unix:/tmp/socket", "no scheme"},
	{"ftp://h", "unknown scheme"},
	{"REDIS//x", "no scheme"},
	{"redis+unix:///x", "unknown scheme"},
	{" redis://h", "a blank"},
	{"redis://h ", "a blank"},
	{"redis://h\n", "a blank"},
	{"redis://h#1", "'#'"},
	{"redis://", "no host"},
	{"redis:///0", "no host"},
	{"redis://:1", "no host"},
	{"redis://u@", "no host"},
	{"redis://:" SECRET "@", "no host"},
	{"redis://@", "no host"},
	{"redis://?db=1", "no host"},
	{"redis://h:", "port"},
	{"redis://h:0", "port"},
	{"redis://h:65536", "port"},
	{"redis://h:-1", "port"},
	{"redis://h:+1", "port"},
	{"redis://h:1x", "port"},
	{"redis://h:abc", "port"},
	{"redis://h:99999999999999999999", "port"},
	{"redis://h:1:2", "port"},
	{"redis://::1", "port"},
	{"redis://h/x", "database"},
	{"redis://h/-1", "database"},
	{"redis://h/1000001", "database"},
	{"redis://h/1/2", "database"},
	{"redis://h/1x", "database"},
	{"redis://h/99999999999", "database"},
	{"redis://h//", "database"},
	{"redis://h/%31", "database"},
	{"redis://a,b", "more hosts than one"},
	{"redis://a b", "a blank"},
	{"redis://\x1b[1mh", "a blank"},
	{"redis://h!", "characters"},
	{"redis://h%41", "characters"},
	{"redis://\xc3\xa4", "characters"},
	{"redis://u:%zz@h", "'%'"},
	{"redis://u:%4@h", "'%'"},
	{"redis://u:%@h", "'%'"},
	{"redis://u:a%00b@h", "'%'"},
	{"redis://%00@h", "'%'"},
	{"redis://[::1", "port"},
	{"redis://[::1]x", "']'"},
	{"redis://[::1]x:1", "']'"},
	{"redis://[::1]:", "port"},
	{"redis://[]", "IPv6"},
	{"redis://[1.2.3.4]", "IPv6"},
	{"redis://[::g]", "IPv6"},
	{"redis://[::1%]", "'%'"},
	{"redis://[::1%25]", "IPv6"},
	{"redis://[::1%zz]", "'%'"},
	{"redis://h?db=1", "parameter"},
	{"redis://h?", "parameter"},
	{"redis://h?cacert=x", "parameter"},
	{"rediss://h?cacert", "parameter"},
	{"rediss://h?cacert=", "without value"},
	{"rediss://h?cacert=%00", "'%'"},
	{"rediss://h?insecure=2", "insecure"},
	{"rediss://h?insecure=", "insecure"},
	{"rediss://h?foo=1", "parameter"},
	{"rediss://h?sni=a&&", "parameter"},
	{"rediss://h?db=1", "parameter"},
	{"unix://", "no absolute path"},
	{"unix:///", "no absolute path"},
	{"unix://run/x", "no absolute path"},
	{"unix://?db=1", "no absolute path"},
	{"unix:///x?db=", "database"},
	{"unix:///x?db=x", "database"},
	{"unix:///x?db=-1", "database"},
	{"unix:///x?db=1&x=1", "parameter"},
	{"unix:///x?sni=a", "parameter"},
	{"redis+sentinel://a", "no service"},
	{"redis+sentinel://a/", "no service"},
	{"redis+sentinel://a//1", "no service"},
	{"redis+sentinel://a/m/x", "database"},
	{"redis+sentinel://a,,b/m", "no host"},
	{"redis+sentinel://a,a/m", "twice"},
	{"redis+quorum://a,b", "three"},
	{"redis+quorum://a", "three"},
	{"redis+quorum://a,b,A", "twice"},
	{"redis+quorum://a,b,", "no host"},
	{"redis+quorum://a:1,b,a:1", "twice"},
};

/* Malformed as they are, their password is not shown. */
static const char *const secretive[] = {
	"redis://:" SECRET,
	"redis://u:" SECRET,
	"redis://u:" SECRET "@h:x",
	"http://:" SECRET "@h",
	"redis://u:a/" SECRET "@h",
	"redis://u:a?" SECRET "@h",
	"redis://u:a#" SECRET "@h",
	"redis://u:a@" SECRET "@h:0",
	"u:" SECRET "@h",
	"redis://u: " SECRET "@h",
	"redis://u:" SECRET "@[h",
	"redis+quorum://a,b:" SECRET,
	"redis://u:%" SECRET "@h",
	"redis://u:" SECRET "/0",
};

static void test_good(void)
{
	for (size_t i = 0; i < COUNT(good); i++) {
		struct failure failure = {.code = EXIT_DONE};
		struct server *server = services_read_url(good[i].url, &failure);
		char hosts[256] = "";

		if (!ok(server != NULL, "%s is read", good[i].url)) {
			printf("# %s\n", failure.text);
			continue;
		}
		for (size_t j = 0; j < server->endpoint_count; j++)
			snprintf(hosts + strlen(hosts), sizeof(hosts) - strlen(hosts), "%s%s:%d",
				j == 0 ? "" : " ", server->endpoints[j].host,
				server->endpoints[j].port);
		same(hosts, good[i].hosts, "its hosts");
		same(server->path, good[i].service, "its service");
		same(server->user, good[i].user, "its user");
		same(server->password, good[i].password, "its password");
		same(server->text, good[i].text == NULL ? good[i].url : good[i].text,
			"what is shown of it");
		ok(redis_form(server) == good[i].form && server->tls == good[i].tls &&
				server->db == good[i].db,
			"its scheme, TLS and database");
		server_free(server);
	}
}

static void test_tls(void)
{
	struct failure failure;
	struct server *server = services_read_url(
		"rediss://h?cacert=/a%26b&cert=c&key=k&sni=first&sni=n@x&insecure=1", &failure);

	if (!ok(server != NULL, "a URL with everything of TLS"))
		return;
	same(server->text, "rediss://h", "of which little is shown");
	same(server->cacert, "/a&b", "cacert");
	same(server->cert, "c", "cert");
	same(server->key, "k", "key");
	same(server->sni, "n@x", "the later sni");
	ok(server->insecure, "insecure");
	server_free(server);
	server = services_read_url("rediss://h?key=k", &failure);
	ok(server == NULL && failure.code == EXIT_USAGE && strstr(failure.text, "key=") != NULL,
		"a key without certificate");
	server = services_read_url("rediss://h?insecure=0", &failure);
	ok(server != NULL && !server->insecure, "insecure=0");
	server_free(server);
}

static void test_bad(void)
{
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct failure failure = {.code = EXIT_DONE};
		struct server *server = services_read_url(bad[i].url, &failure);

		if (!ok(server == NULL && failure.code == EXIT_USAGE &&
				    strstr(failure.text, bad[i].said) != NULL,
			    "malformed URL %zu is refused: %s", i, bad[i].said))
			printf("# %s: %s\n", bad[i].url, failure.text);
		server_free(server);
	}
}

static void test_lengths(void)
{
	static const char *const forms[] = {"redis://%s", "unix:///%s"};
	static const int most[] = {253, 106};

	for (size_t i = 0; i < COUNT(forms); i++) {
		char path[400], url[420];
		struct failure failure;
		struct server *server;

		memset(path, 'x', sizeof(path));
		path[most[i]] = '\0';
		snprintf(url, sizeof(url), i == 0 ? "redis://%s" : "unix:///%s", path);
		server = services_read_url(url, &failure);
		ok(server != NULL, "%s with as much as there may be", forms[i]);
		server_free(server);
		path[most[i]] = 'x';
		path[most[i] + 1] = '\0';
		snprintf(url, sizeof(url), i == 0 ? "redis://%s" : "unix:///%s", path);
		server = services_read_url(url, &failure);
		ok(server == NULL && strstr(failure.text, "more than") != NULL,
			"%s with a byte more", forms[i]);
		server_free(server);
	}
}

static void test_secrets(void)
{
	for (size_t i = 0; i < COUNT(secretive); i++) {
		struct failure failure = {.text = ""};
		struct server *server = services_read_url(secretive[i], &failure);
		char *url = strdup(secretive[i]);

		ok(server == NULL && strstr(failure.text, SECRET) == NULL, "no password in: %s",
			failure.text);
		server_free(server);
		server_scrub(url);
		ok(strstr(url, SECRET) == NULL && strlen(url) == strlen(secretive[i]), "nor in: %s",
			url);
		free(url);
	}
}

static void test_scrub(void)
{
	char with[] = "redis://u:" SECRET "@h:1/2", without[] = "redis://u@h:1/2", empty[] = "";

	server_scrub(with);
	same(with, "redis://u:xxxxxx@h:1/2", "a password is overwritten, nothing else");
	server_scrub(without);
	same(without, "redis://u@h:1/2", "where there is none, nothing is");
	server_scrub(empty);
	same(empty, "", "not even in an empty one");
}

/* What is left of a URL that a library reads, and the parameter that is ours. */
static void test_cut(void)
{
	static const struct {
		const char *url, *left, *value;
	} cuts[] = {
		{"p://h/d?ours=1", "p://h/d?", "1"},
		{"p://h/d?ours=1&a=b", "p://h/d?a=b", "1"},
		{"p://h/d?a=b&ours=&c=d", "p://h/d?a=b&c=d", ""},
		{"p://h/d?a=b", "p://h/d?a=b", NULL},
		{"p://h/ours=1", "p://h/ours=1", NULL},
		{"p://h/d?a=yours=1", "p://h/d?a=yours=1", NULL},
	};

	for (size_t i = 0; i < COUNT(cuts); i++) {
		struct failure failure;
		struct server_reading reading = {.text = cuts[i].url, .failure = &failure};
		char *url = strdup(cuts[i].url), *value = NULL;

		ok(server_cut_parameter(&reading, url, "ours=", &value), "%s", cuts[i].url);
		same(url, cuts[i].left, "the rest of it");
		same(value, cuts[i].value, "its value");
		free(url);
		free(value);
	}
}

int main(void)
{
	test_good();
	test_tls();
	test_bad();
	test_lengths();
	test_secrets();
	test_scrub();
	test_cut();
	return tap_end();
}
