/*
 * A peer that answers anything where TLS is to be spoken. The first byte says what it is: none that
 * speaks TLS, a server that does, or (f) the files that a URL names, which are the rest. The second
 * says which URL, the third what is done (acts.c); the next three spoil the server's bytes: where
 * (two, the low one first), and what it is xored with; with nothing it ends there. The rest is
 * what it says, decrypted (world.h).
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acts.h"
#include "base/failure.h"
#include "fuzz.h"
#include "lock/services.h"
#include "net/server.h"
/* NOLINTNEXTLINE(bugprone-suspicious-include): for the files alone, too */
#include "net/tls.c"
#include "tls_peer.h"
#include "world.h"

#define HEAD      6
#define SIZE_MOST 16384

static const struct {
	uint8_t letter;
	struct tls_peer peer;
} kinds[] = {
	{'3', {.version = TLS1_3_VERSION}}, {'2', {.version = TLS1_2_VERSION}},
	{'1', {.version = TLS1_1_VERSION}}, {'a', {.version = TLS1_3_VERSION, .asks = true}},
	{'r', {.version = TLS1_3_VERSION, .asks = true, .insists = true}},
	{'A', {.version = TLS1_2_VERSION, .asks = true}},
	{'R', {.version = TLS1_2_VERSION, .asks = true, .insists = true}},
	{'o', {.version = TLS1_3_VERSION, .other = true}},
	{'p', {.version = 0}}, /* speaks no TLS */
};

enum { CERTIFICATE, KEY, OTHER, FILES, NONE = FILES };

static const struct {
	uint8_t letter;
	const char *url;
	int cacert, cert, key;
	enum { NOBODY, ITS_HOLDER, ANYBODY } believes; /* of CERTIFICATE */
} places[] = {
	{'i', "rediss://node?insecure=1", NONE, NONE, NONE, ANYBODY},
	{'v', "rediss://user:word@node?insecure=0", CERTIFICATE, NONE, NONE, ITS_HOLDER},
	{'w', "rediss://elsewhere?insecure=0", CERTIFICATE, NONE, NONE, NOBODY},
	{'6', "rediss://[::1]?insecure=0", CERTIFICATE, NONE, NONE, ITS_HOLDER},
	{'7', "rediss://[::2]?insecure=0", CERTIFICATE, NONE, NONE, NOBODY},
	{'n', "rediss://[::2]?sni=node", CERTIFICATE, NONE, NONE, ITS_HOLDER},
	{'u', "rediss://node?insecure=0", OTHER, NONE, NONE, NOBODY},
	{'c', "rediss://node?insecure=0", CERTIFICATE, CERTIFICATE, KEY, ITS_HOLDER},
	{'o', "rediss://node?insecure=0", CERTIFICATE, OTHER, NONE, ITS_HOLDER},
	{'b', "rediss://node?insecure=1", NONE, KEY, NONE, NOBODY},
	{'B', "rediss+quorum://h1,h2,h3?insecure=1", NONE, KEY, NONE, NOBODY},
	{'s', "rediss+sentinel://h1,h2/service?insecure=1", NONE, NONE, NONE, ANYBODY},
	{'q', "rediss+quorum://h1,h2,h3?insecure=1", NONE, NONE, NONE, ANYBODY},
	{'Q', "rediss+quorum://:word@node,node:2,node:3/2?insecure=0", CERTIFICATE, NONE, NONE,
		ITS_HOLDER},
};

#define KINDS  (sizeof(kinds) / sizeof(kinds[0]))
#define PLACES (sizeof(places) / sizeof(places[0]))

/* --- Files ---------------------------------------------------------------------------------- */

struct file {
	int fd;
	char path[32];
};

static struct file given[FILES], loose[FILES];

static void open_file(struct file *file)
{
	file->fd = memfd_create("tls", MFD_CLOEXEC);
	MUST(file->fd >= 0);
	snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
}

static void add_to_file(struct file *file, const void *bytes, size_t size)
{
	MUST(write(file->fd, bytes, size) == (ssize_t)size);
}

static void prepare_files(void)
{
	static bool done;

	if (done)
		return;
	done = true;
	tls_peer_begin();
	for (int i = 0; i < FILES; i++) {
		open_file(&given[i]);
		open_file(&loose[i]);
	}
	add_to_file(&given[CERTIFICATE], tls_peer_certificate(false),
		strlen(tls_peer_certificate(false)));
	add_to_file(&given[KEY], tls_peer_key(), strlen(tls_peer_key()));
	add_to_file(&given[OTHER], tls_peer_certificate(true), strlen(tls_peer_certificate(true)));
	add_to_file(&given[OTHER], tls_peer_key(), strlen(tls_peer_key()));
}

/* 1 stands for a certificate, 2 for its key, 3 for another certificate. */
static void fill(struct file *file, const uint8_t *bytes, size_t size)
{
	MUST(ftruncate(file->fd, 0) == 0 && lseek(file->fd, 0, SEEK_SET) == 0);
	for (size_t i = 0; i < size && i < 2048; i++) {
		const char *text =
			bytes[i] == 2 ? tls_peer_key() : tls_peer_certificate(bytes[i] == 3);

		if (bytes[i] >= 1 && bytes[i] <= 3)
			add_to_file(file, text, strlen(text));
		else
			add_to_file(file, &bytes[i], 1);
	}
}

/* Up to the next NUL. */
static size_t next_part(const uint8_t **data, size_t *size, const uint8_t **part)
{
	const uint8_t *stop = memchr(*data, 0, *size);
	size_t length = stop ? (size_t)(stop - *data) : *size;

	*part = *data;
	*data += length + (stop ? 1 : 0);
	*size -= length + (stop ? 1 : 0);
	return length;
}

/* cacert=, cert=, key=, and the peer that has to answer. */
static void read_files(const uint8_t *data, size_t size)
{
	struct failure failure = {0};
	struct server server = {.tls = true};
	char **const fields[] = {&server.cacert, &server.cert, &server.key};
	SSL_CTX *context;

	for (int i = 0; i < FILES; i++) {
		const uint8_t *part;
		size_t length = next_part(&data, &size, &part);

		fill(&loose[i], part, length);
		if (length > 0)
			*fields[i] = loose[i].path;
	}
	MUST(size < SIZE_MOST);
	context = make_context(&server, &failure);
	MUST(context || (failure.code == EXIT_CONFIG && failure.text[0] != '\0'));
	if (context) {
		char *host = fuzz_text(data, size);
		SSL *ssl = SSL_new(context);

		MUST(ssl != NULL);
		if (host[0] != '\0')
			set_host(ssl, host);
		SSL_free(ssl);
		free(host);
	}
	SSL_CTX_free(context);
}

/* --- Peers ---------------------------------------------------------------------------------- */

static size_t add_parameter(char *url, size_t used, size_t size, const char *name, int file)
{
	if (file == NONE)
		return used;
	return used + (size_t)snprintf(url + used, size - used, "&%s=%s", name, given[file].path);
}

static size_t find_place(uint8_t letter)
{
	for (size_t i = 0; i < PLACES; i++)
		if (places[i].letter == letter)
			return i;
	return letter % PLACES;
}

static size_t find_kind(uint8_t letter)
{
	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].letter == letter)
			return i;
	return letter % KINDS;
}

static struct server *open_place(size_t which)
{
	size_t used;
	struct failure failure;
	struct server *server;
	char url[200];

	used = (size_t)snprintf(url, sizeof(url), "%s", places[which].url);
	used = add_parameter(url, used, sizeof(url), "cacert", places[which].cacert);
	used = add_parameter(url, used, sizeof(url), "cert", places[which].cert);
	add_parameter(url, used, sizeof(url), "key", places[which].key);
	server = services_read_url(url, &failure);
	MUST(server != NULL && server->tls);
	return server;
}

static void meet(const uint8_t *data, size_t size)
{
	struct tls_peer peer = kinds[find_kind(data[0])].peer;
	size_t place = find_place(data[1]);
	struct server *server = open_place(place);

	peer.distrusted = places[place].believes == NOBODY ||
			  (peer.other && places[place].believes == ITS_HOLDER);
	peer.spoil_at = data[3] | (size_t)data[4] << 8;
	peer.spoil_with = data[5];
	tls_peer_play(&peer);
	world_begin(data + HEAD, size - HEAD, &tls_peer_voice);
	act(data[2], server);
	world_end();
	server_free(server);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD || size >= SIZE_MOST)
		return 0;
	prepare_files();
	ERR_clear_error();
	if (data[0] == 'f')
		read_files(data + 1, size - 1);
	else
		meet(data, size);
	return 0;
}
