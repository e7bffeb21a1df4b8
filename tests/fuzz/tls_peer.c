#define OPENSSL_SUPPRESS_DEPRECATED /* RAND_set_rand_method */

#include "tls_peer.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include "fuzz.h"
#include "world.h"

#define PEM_SIZE 2048

static struct {
	struct tls_peer peer;
	SSL_CTX *context; /* owned */
	EVP_PKEY *key;
	X509 *certificates[2];
	char key_text[PEM_SIZE], texts[2][PEM_SIZE];
	uint32_t chance;
} own;

struct link {
	SSL *ssl;      /* owned, and with it the two */
	BIO *in, *out; /* what came, what is to go */
	size_t sent;
	bool over; /* the handshake, for better or worse */
	bool shaken;
	bool plainly; /* the next is not encrypted */
};

/* --- Chance --------------------------------------------------------------------------------- */

/* xorshift: G. Marsaglia, Xorshift RNGs, 2003. */
static int give_chance(unsigned char *bytes, int size)
{
	for (int i = 0; i < size; i++) {
		own.chance ^= own.chance << 13;
		own.chance ^= own.chance >> 17;
		own.chance ^= own.chance << 5;
		bytes[i] = (unsigned char)own.chance;
	}
	return 1;
}

static int has_chance(void)
{
	return 1;
}

static const RAND_METHOD chance = {
	.bytes = give_chance, .pseudorand = give_chance, .status = has_chance};

/* --- Its identity --------------------------------------------------------------------------- */

static EVP_PKEY *make_key(void)
{
	EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
	EVP_PKEY *key = NULL;

	MUST(EVP_PKEY_keygen_init(context) == 1 &&
		EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1 &&
		EVP_PKEY_keygen(context, &key) == 1);
	EVP_PKEY_CTX_free(context);
	return key;
}

static X509 *make_certificate(EVP_PKEY *key, const char *who, const char *use)
{
	X509 *made = X509_new();
	X509_NAME *name = X509_NAME_new();
	X509_EXTENSION *hosts =
		X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:node,IP:::1");
	X509_EXTENSION *purpose = X509V3_EXT_conf_nid(NULL, NULL, NID_ext_key_usage, use);

	MUST(X509_NAME_add_entry_by_txt(
		     name, "CN", MBSTRING_ASC, (const unsigned char *)who, -1, -1, 0) == 1);
	MUST(X509_set_version(made, 2) == 1 && X509_set_pubkey(made, key) == 1 &&
		ASN1_INTEGER_set(X509_get_serialNumber(made), 1) == 1 &&
		ASN1_TIME_set_string(X509_getm_notBefore(made), "19700101000000Z") == 1 &&
		ASN1_TIME_set_string(X509_getm_notAfter(made), "99991231235959Z") == 1 &&
		X509_set_subject_name(made, name) == 1 && X509_set_issuer_name(made, name) == 1 &&
		X509_add_ext(made, hosts, -1) == 1 && X509_add_ext(made, purpose, -1) == 1 &&
		X509_sign(made, key, EVP_sha256()) > 0);
	X509_EXTENSION_free(hosts);
	X509_EXTENSION_free(purpose);
	X509_NAME_free(name);
	return made;
}

static void write_text(BIO *bio, char text[static PEM_SIZE])
{
	int size = BIO_read(bio, text, PEM_SIZE - 1);

	MUST(size > 0 && BIO_pending(bio) == 0);
	text[size] = '\0';
	BIO_free(bio);
}

void tls_peer_begin(void)
{
	static const char *const names[] = {"fuzz", "other"};
	static const char *const uses[] = {"serverAuth,clientAuth", "clientAuth"};
	BIO *bio = BIO_new(BIO_s_mem());

	own.chance = 1;
	MUST(RAND_set_rand_method(&chance) == 1);
	own.key = make_key();
	MUST(PEM_write_bio_PrivateKey(bio, own.key, NULL, NULL, 0, NULL, NULL) == 1);
	write_text(bio, own.key_text);
	for (int i = 0; i < 2; i++) {
		own.certificates[i] = make_certificate(own.key, names[i], uses[i]);
		bio = BIO_new(BIO_s_mem());
		MUST(PEM_write_bio_X509(bio, own.certificates[i]) == 1);
		write_text(bio, own.texts[i]);
	}
}

const char *tls_peer_certificate(bool other)
{
	return own.texts[other];
}

const char *tls_peer_key(void)
{
	return own.key_text;
}

static SSL_CTX *make_context(const struct tls_peer *peer)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());

	MUST(context && SSL_CTX_set_cipher_list(context, "ALL:@SECLEVEL=0") == 1 &&
		SSL_CTX_set_min_proto_version(context, peer->version) == 1 &&
		SSL_CTX_set_max_proto_version(context, peer->version) == 1 &&
		SSL_CTX_use_certificate(context, own.certificates[peer->other]) == 1 &&
		SSL_CTX_use_PrivateKey(context, own.key) == 1 &&
		X509_STORE_add_cert(SSL_CTX_get_cert_store(context), own.certificates[0]) == 1);
	if (peer->asks)
		SSL_CTX_set_verify(context,
			SSL_VERIFY_PEER | (peer->insists ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
			NULL);
	return context;
}

void tls_peer_play(const struct tls_peer *peer)
{
	own.peer = *peer;
	own.chance = 1;
	SSL_CTX_free(own.context);
	own.context = make_context(peer);
}

/* --- What it does --------------------------------------------------------------------------- */

static void *begin(int fd)
{
	struct link *link = calloc(1, sizeof(*link));

	(void)fd;
	MUST(link != NULL);
	link->in = BIO_new(BIO_s_mem());
	link->out = BIO_new(BIO_s_mem());
	link->ssl = SSL_new(own.context);
	MUST(link->in && link->out && link->ssl);
	SSL_set_bio(link->ssl, link->in, link->out);
	SSL_set_accept_state(link->ssl);
	return link;
}

static void end(void *self)
{
	struct link *link = self;

	SSL_free(link->ssl);
	free(link);
}

static void put(struct link *link, int fd, uint8_t *bytes, size_t size)
{
	size_t spoilt = own.peer.spoil_at - link->sent; /* far away where it was before */
	bool ends = spoilt < size && own.peer.spoil_with == 0;

	if (spoilt < size)
		bytes[spoilt] ^= own.peer.spoil_with;
	link->sent += size;
	(void)!send(fd, bytes, ends ? spoilt : size, MSG_NOSIGNAL);
	if (ends)
		shutdown(fd, SHUT_WR);
}

static void pass_on(struct link *link, int fd)
{
	uint8_t bytes[4096];
	int size;

	while ((size = BIO_read(link->out, bytes, sizeof(bytes))) > 0)
		put(link, fd, bytes, (size_t)size);
}

static bool turn(void *self, int fd)
{
	struct link *link = self;
	char bytes[4096];
	ssize_t size;

	while ((size = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
		MUST(memmem(bytes, (size_t)size, "EVAL", 4) == NULL);
		MUST(BIO_write(link->in, bytes, (int)size) == size);
	}
	ERR_clear_error();
	if (own.peer.version == 0) {
		link->over = true;
	} else if (!link->over) {
		int result = SSL_accept(link->ssl);

		link->shaken = result == 1;
		link->over = result == 1 || SSL_get_error(link->ssl, result) != SSL_ERROR_WANT_READ;
	} else if (link->shaken) {
		while (SSL_read(link->ssl, bytes, sizeof(bytes)) > 0)
			MUST(!own.peer.distrusted);
	}
	pass_on(link, fd);
	return link->over;
}

static void say(void *self, int fd, const uint8_t *bytes, size_t size)
{
	struct link *link = self;

	ERR_clear_error();
	if (link->shaken && !link->plainly)
		SSL_write(link->ssl, bytes, (int)size);
	else
		(void)!send(fd, bytes, size, MSG_NOSIGNAL);
	link->plainly = false;
	pass_on(link, fd);
}

static void act(void *self, int fd, uint8_t what)
{
	struct link *link = self;
	SSL *ssl = link->ssl;

	ERR_clear_error();
	switch (own.peer.version ? what : 0) {
	case 'k':
		SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
		break;
	case 'n':
		SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
		break;
#if OPENSSL_VERSION_NUMBER >= 0x30000000L
	case 't':
		SSL_new_session_ticket(ssl);
		break;
#endif
	case 'r':
		SSL_renegotiate(ssl);
		break;
	case 'c':
		SSL_shutdown(ssl);
		break;
	case 'g':
		link->plainly = true;
		return;
	default:
		say(self, fd, &what, 1);
		return;
	}
	if (link->shaken && what != 'c')
		SSL_do_handshake(ssl);
	pass_on(link, fd);
}

const struct world_voice tls_peer_voice = {begin, turn, say, act, end};
