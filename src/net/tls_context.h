/* The settings of a TLS session, from a server's URL: versions, authorities, certificate, host.
 * Nothing but tls.c includes it. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>

struct failure;
struct server;

/* Reads the files that the URL names. NULL with failure: EXIT_CONFIG if one of them is of no use.
 * SSL_CTX_free() with it. */
SSL_CTX *tls_context_make(const struct server *server, struct failure *failure);

/* The fault of a certificate of which OpenSSL says that, as the rest of a sentence; NULL: there is
 * no more than OpenSSL says. */
const char *tls_context_broken(long verdict);

/* The host to ask for (SNI, which is for names only); the server has to prove that it is this
 * host. */
bool tls_context_set_host(SSL *ssl, const char *host);
