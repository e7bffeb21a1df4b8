#include "net/tls.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/failure.h"
#include "net/server.h"
#include "net/socket.h"
#include "net/tls_context.h"

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

static ssize_t tls_send(struct tls *tls, const void *data, size_t size)
{
	ssize_t sent;

	begin_use(tls);
	sent = end_use(tls, SSL_write(tls->ssl, data, at_most(size)));
	if (sent == 0)
		errno = EPIPE;
	return sent == 0 ? -1 : sent;
}

static ssize_t tls_receive(struct tls *tls, void *data, size_t size)
{
	begin_use(tls);
	return end_use(tls, SSL_read(tls->ssl, data, at_most(size)));
}

static short wanted_events(const struct tls *tls)
{
	return tls->events;
}

static bool is_ready(const struct tls *tls)
{
	return SSL_pending(tls->ssl) > 0;
}

static enum io_result explain_certificate(
	const struct tls *tls, long verdict, struct failure *failure)
{
	const char *says = tls_context_broken(verdict);

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

static enum io_result explain(const struct tls *tls, struct failure *failure)
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

static void tls_close(struct tls *tls)
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
	       tls_context_set_host(tls->ssl, server->sni ? server->sni : host);
}

/* NULL with failure; else that is as it was. */
static struct tls *create(int fd, const struct server *server, const char *host, const char *peer,
	struct failure *failure)
{
	struct failure unmade = {.code = EXIT_SYSTEM, .text = "out of memory"};
	struct tls *tls = calloc(1, sizeof(*tls));

	if (tls) {
		*tls = (struct tls){.fd = fd, .server = server, .peer = peer, .events = POLLIN};
		tls->context = tls_context_make(server, &unmade);
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
	return explain(tls, failure);
}

static enum io_result tls_open(struct tls **out, int fd, const struct server *server,
	const char *host, const char *peer, struct deadline deadline, struct failure *failure)
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

static void write_library(char *text, size_t size)
{
	const char *version = OpenSSL_version(OPENSSL_VERSION); /* "OpenSSL 3.0.17 1 Jul 2025" */
	size_t length = strcspn(version, " ");

	length += strspn(version + length, " ");
	length += strcspn(version + length, " ");
	snprintf(text, size, "%.*s", (int)length, version);
}

static const struct tls_layer layer = {
	.open = tls_open,
	.close = tls_close,
	.send = tls_send,
	.receive = tls_receive,
	.events = wanted_events,
	.is_ready = is_ready,
	.library = write_library,
	.explain = explain,
};

const struct tls_layer *const tls_layer = &layer;
