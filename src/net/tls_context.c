#include "net/tls_context.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "net/server.h"

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

SSL_CTX *tls_context_make(const struct server *server, struct failure *failure)
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

const char *tls_context_broken(long verdict)
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

bool tls_context_set_host(SSL *ssl, const char *host)
{
	char plain[INET6_ADDRSTRLEN];
	unsigned char address[sizeof(struct in6_addr)];
	size_t length = strcspn(host, "%"); /* an address may have a zone */
	bool numeric = false;

	if (length < sizeof(plain)) {
		memcpy(plain, host, length);
		plain[length] = '\0';
		numeric = inet_pton(AF_INET, plain, address) == 1 ||
			  inet_pton(AF_INET6, plain, address) == 1;
	}
	if (numeric)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), plain) == 1;
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}
