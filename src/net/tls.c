#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "net/server.h"
#include "net/socket.h"

#define RECORD_FIRST 0x14 /* the bytes that a TLS record may begin with (RFC 8446, 5.1) */
#define RECORD_LAST  0x18

struct tls {
	int fd; /* borrowed, as are the next two */
	const char *peer;
	const struct server *server;
	BIO_METHOD *method; /* owned */
	SSL_CTX *context;   /* owned */
	SSL *ssl;           /* owned, and with it the BIO */
	short events;
	int error;            /* errno of the last operation on the socket; 0: none or its end */
	unsigned long reason; /* OpenSSL's, of the last operation; 0: none */
	bool reached;         /* something went there */
	bool heard;           /* something came from there, */
	bool strange;         /* which was no TLS */
	bool asked;           /* the server wants to see a certificate */
};

/* --- The context ----------------------------------------------------------------------------- */

/* Where OpenSSL would ask for the password of a key, on the terminal. */
static int know_no_password(char *buffer, int size, int writing, void *context)
{
	(void)buffer, (void)size, (void)writing, (void)context;
	return -1;
}

static bool fail_file(const char *parameter, const char *path, struct failure *failure)
{
	const char *reason = ERR_reason_error_string(ERR_peek_error());

	if (access(path, R_OK) != 0)
		reason = strerror(errno);
	return failure_set(failure, EXIT_CONFIG, "%s=%s is of no use: %s", parameter, path,
		reason ? reason : "OpenSSL refuses");
}

static bool load_authorities(SSL_CTX *context, const char *path, struct failure *failure)
{
	struct stat status;
	bool folder = path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);

	if (!path)
		return SSL_CTX_set_default_verify_paths(context) == 1 ||
		       failure_set(failure, EXIT_SYSTEM, "cannot load the host's authorities");
	return SSL_CTX_load_verify_locations(context, folder ? NULL : path, folder ? path : NULL) ==
		       1 ||
	       fail_file("cacert", path, failure);
}

static bool load_own(SSL_CTX *context, const struct server *server, struct failure *failure)
{
	const char *key = server->key ? server->key : server->cert;

	SSL_CTX_set_default_passwd_cb(context, know_no_password);
	if (!server->cert)
		return true;
	if (SSL_CTX_use_certificate_chain_file(context, server->cert) != 1)
		return fail_file("cert", server->cert, failure);
	/* Also fails if the two do not belong together. */
	return SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1 ||
	       fail_file(server->key ? "key" : "cert", key, failure);
}

static bool set_terms(SSL_CTX *context, const struct server *server, struct failure *failure)
{
	X509_VERIFY_PARAM *terms = SSL_CTX_get0_param(context);

	/* The host's own configuration may ask for more than that. */
	if (SSL_CTX_get_min_proto_version(context) < TLS1_2_VERSION)
		SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_mode(
		context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* An authority that cacert= names is trusted, whether or not another authority has signed
	 * it. */
	X509_VERIFY_PARAM_set_flags(terms, X509_V_FLAG_PARTIAL_CHAIN);
	X509_VERIFY_PARAM_set_hostflags(terms, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	SSL_CTX_set_verify(context, server->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	return (server->insecure || load_authorities(context, server->cacert, failure)) &&
	       load_own(context, server, failure);
}

/* Reads the files that the URL names. NULL with failure: EXIT_CONFIG if one of them is of no use.
 */
static SSL_CTX *make_context(const struct server *server, struct failure *failure)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());

	ERR_clear_error();
	if (!context) {
		failure_set(failure, EXIT_SYSTEM, "cannot begin with TLS: OpenSSL refuses");
		return NULL;
	}
	if (set_terms(context, server, failure))
		return context;
	SSL_CTX_free(context);
	return NULL;
}

/* The fault of a certificate of which OpenSSL says that, as the rest of a sentence; NULL: there is
 * no more than OpenSSL says. */
static const char *describe_verdict(long verdict)
{
	static const struct {
		long verdict;
		const char *says;
	} verdicts[] = {
		{X509_V_ERR_CERT_HAS_EXPIRED, "has expired"},
		{X509_V_ERR_CERT_NOT_YET_VALID, "is not valid yet"},
		{X509_V_ERR_HOSTNAME_MISMATCH, "is for another host"},
		{X509_V_ERR_IP_ADDRESS_MISMATCH, "is for another address"},
		{X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
			"is signed by itself, and cacert= does not name it"},
		{X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
			"is of an authority that is not trusted here (cacert=)"},
		{X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
			"is of an authority that is not known here (cacert=)"},
		{X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
			"is of an authority that is not known here (cacert=)"},
	};

	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++)
		if (verdicts[i].verdict == verdict)
			return verdicts[i].says;
	return NULL;
}

/* The host to ask for (SNI, which is for names only); the server has to prove that it is this host.
 */
static bool set_host(SSL *ssl, const char *host)
{
	char plain[INET6_ADDRSTRLEN];
	unsigned char address[sizeof(struct in6_addr)];
	size_t length = strcspn(host, "%"); /* an address may have a zone */

	snprintf(plain, sizeof(plain), "%.*s", (int)length, host);
	/* OpenSSL before 3.0 takes 1.2.3.4.example.com for an address. */
	if (length < sizeof(plain) && (inet_pton(AF_INET, plain, address) == 1 ||
					      inet_pton(AF_INET6, plain, address) == 1))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), plain) == 1;
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* --- The socket ------------------------------------------------------------------------------ */
/* OpenSSL's own BIO for sockets writes without MSG_NOSIGNAL. */

static int put_bytes(BIO *bio, const char *data, int size)
{
	struct tls *tls = BIO_get_data(bio);
	ssize_t sent = send(tls->fd, data, (size_t)size, MSG_NOSIGNAL);

	BIO_clear_retry_flags(bio);
	if (sent >= 0) {
		tls->reached = true;
		return (int)sent;
	}
	if (errno == EAGAIN || errno == EINTR) {
		BIO_set_retry_write(bio);
		return -1;
	}
	tls->error = errno;
	return tls->reached ? size : -1;
}

static int get_bytes(BIO *bio, char *data, int size)
{
	struct tls *tls = BIO_get_data(bio);
	ssize_t count = recv(tls->fd, data, (size_t)size, 0);

	BIO_clear_retry_flags(bio);
	tls->error = count < 0 ? errno : 0;
	if (count < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	if (count > 0 && !tls->heard) {
		tls->heard = true;
		tls->strange = data[0] < RECORD_FIRST || data[0] > RECORD_LAST;
	}
	return (int)count;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio, (void)number, (void)pointer;
	return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static bool attach_socket(struct tls *tls)
{
	BIO *bio;

	tls->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket");
	if (!tls->method)
		return false;
	BIO_meth_set_write(tls->method, put_bytes);
	BIO_meth_set_read(tls->method, get_bytes);
	BIO_meth_set_ctrl(tls->method, control);
	bio = BIO_new(tls->method);
	if (!bio)
		return false;
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	SSL_set_bio(tls->ssl, bio, bio);
	return true;
}

static void begin_use(struct tls *tls)
{
	tls->error = 0;
	tls->reason = 0;
	ERR_clear_error();
}

/* The result of SSL_read and its like, as recv(2) would give it. */
static ssize_t end_use(struct tls *tls, int result)
{
	tls->events = POLLIN;
	if (result > 0)
		return result;
	switch (SSL_get_error(tls->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_WANT_WRITE:
		tls->events = POLLOUT;
		errno = EAGAIN;
		return -1;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SSL:
		tls->reason = ERR_peek_error();
		errno = EPROTO;
		return -1;
	default:
		errno = tls->error;
		return tls->error == 0 ? 0 : -1;
	}
}

static int at_most(size_t size)
{
	return size < 1 << 20 ? (int)size : 1 << 20;
}

ssize_t tls_send(struct tls *tls, const void *data, size_t size)
{
	ssize_t sent;

	begin_use(tls);
	sent = end_use(tls, SSL_write(tls->ssl, data, at_most(size)));
	if (sent == 0)
		errno = EPIPE;
	return sent == 0 ? -1 : sent;
}

ssize_t tls_receive(struct tls *tls, void *data, size_t size)
{
	begin_use(tls);
	return end_use(tls, SSL_read(tls->ssl, data, at_most(size)));
}

short tls_events(const struct tls *tls)
{
	return tls->events;
}

bool tls_is_ready(const struct tls *tls)
{
	return SSL_pending(tls->ssl) > 0;
}

static enum io_result explain_certificate(
	const struct tls *tls, long verdict, struct failure *failure)
{
	const char *says = describe_verdict(verdict);

	failure_set(failure, EXIT_REFUSED, "the certificate of %s %s%s", tls->peer,
		says ? says : "does not hold: ",
		says ? "" : X509_verify_cert_error_string(verdict));
	return IO_FAILED;
}

/* Whether the server ended the session because of our certificate. */
static bool is_about_ours(const struct tls *tls, int alert)
{
	switch (alert) {
	case SSL_AD_HANDSHAKE_FAILURE: /* before TLS 1.3 that is all it says */
		return tls->asked;
	case SSL_AD_BAD_CERTIFICATE:
	case SSL_AD_UNSUPPORTED_CERTIFICATE:
	case SSL_AD_CERTIFICATE_REVOKED:
	case SSL_AD_CERTIFICATE_EXPIRED:
	case SSL_AD_CERTIFICATE_UNKNOWN:
	case SSL_AD_UNKNOWN_CA:
	case SSL_AD_ACCESS_DENIED:
	case SSL_AD_CERTIFICATE_REQUIRED:
		return true;
	default:
		return false;
	}
}

static enum io_result explain_alert(const struct tls *tls, int alert, struct failure *failure)
{
	const char *words = SSL_alert_desc_string_long(alert);

	if (!is_about_ours(tls, alert))
		failure_set(
			failure, EXIT_PROTOCOL, "%s ended the TLS session (%s)", tls->peer, words);
	else if (!tls->server->cert)
		failure_set(failure, EXIT_REFUSED, "%s asks for a client certificate (cert=, key=)",
			tls->peer);
	else
		failure_set(failure, EXIT_REFUSED,
			"%s does not accept the certificate of cert= (%s)", tls->peer, words);
	return IO_FAILED;
}

enum io_result tls_explain(const struct tls *tls, struct failure *failure)
{
	long verdict = SSL_get_verify_result(tls->ssl);
	int reason = ERR_GET_REASON(tls->reason);

	if (tls->strange) {
		failure_set(failure, EXIT_PROTOCOL, "%s does not speak TLS, which the URL asks for",
			tls->peer);
		return IO_FAILED;
	}
	if (tls->reason == 0 && !tls->reached)
		return socket_fail(tls->error, tls->peer, failure);
	if (tls->reason == 0) {
		failure_set(failure, EXIT_UNREACHABLE, "%s closed the connection%s%s", tls->peer,
			tls->error ? ": " : "", tls->error ? strerror(tls->error) : "");
		return IO_CLOSED;
	}
	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK)
		return explain_certificate(tls, verdict, failure);
	if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256)
		return explain_alert(tls, reason - SSL_AD_REASON_OFFSET, failure);
	failure_set(failure, EXIT_PROTOCOL, "TLS with %s fails (%s)", tls->peer,
		ERR_reason_error_string(tls->reason));
	return IO_FAILED;
}

/* Asked when the server wants to see a certificate and cert= has named none. */
static int record_asked(SSL *ssl, X509 **certificate, EVP_PKEY **key)
{
	struct tls *tls = SSL_get_app_data(ssl);

	(void)certificate, (void)key;
	tls->asked = true;
	return 0;
}

void tls_close(struct tls *tls)
{
	SSL_free(tls->ssl);
	SSL_CTX_free(tls->context);
	BIO_meth_free(tls->method);
	free(tls);
}

static bool prepare(struct tls *tls, const char *host)
{
	const struct server *server = tls->server;

	if (!server->cert)
		SSL_CTX_set_client_cert_cb(tls->context, record_asked);
	tls->ssl = SSL_new(tls->context);
	return tls->ssl && SSL_set_app_data(tls->ssl, tls) == 1 && attach_socket(tls) &&
	       set_host(tls->ssl, server->sni ? server->sni : host);
}

/* NULL with failure; else that is as it was. */
static struct tls *create(int fd, const struct server *server, const char *host, const char *peer,
	struct failure *failure)
{
	struct failure unmade = {.code = EXIT_SYSTEM, .text = "out of memory"};
	struct tls *tls = calloc(1, sizeof(*tls));

	if (tls) {
		*tls = (struct tls){.fd = fd, .server = server, .peer = peer, .events = POLLIN};
		tls->context = make_context(server, &unmade);
		if (tls->context && prepare(tls, host))
			return tls;
		tls_close(tls);
	}
	*failure = unmade;
	return NULL;
}

static enum io_result shake_hands(
	struct tls *tls, struct deadline deadline, struct failure *failure)
{
	for (;;) {
		int result;

		begin_use(tls);
		result = SSL_connect(tls->ssl);
		if (result == 1)
			return IO_OK;
		if (end_use(tls, result) >= 0 || errno != EAGAIN)
			break;
		switch (deadline_wait(&deadline, tls->fd, tls->events)) {
		case DEADLINE_READY:
			break;
		case DEADLINE_OVER:
			failure_set(failure, EXIT_UNREACHABLE,
				"%s does not answer the TLS handshake (a server without TLS would "
				"not either)",
				tls->peer);
			return IO_TIMEOUT;
		case DEADLINE_CANCELLED:
			return IO_CANCELLED;
		}
	}
	return tls_explain(tls, failure);
}

enum io_result tls_open(struct tls **out, int fd, const struct server *server, const char *host,
	const char *peer, struct deadline deadline, struct failure *failure)
{
	struct tls *tls = create(fd, server, host, peer, failure);
	enum io_result result;

	if (!tls)
		return IO_FAILED;
	result = shake_hands(tls, deadline, failure);
	if (result == IO_OK)
		*out = tls;
	else
		tls_close(tls);
	return result;
}

void tls_library(char *text, size_t size)
{
	const char *version = OpenSSL_version(OPENSSL_VERSION); /* "OpenSSL 3.0.17 1 Jul 2025" */
	size_t length = strcspn(version, " ");

	length += strspn(version + length, " ");
	length += strcspn(version + length, " ");
	snprintf(text, size, "%.*s", (int)length, version);
}
