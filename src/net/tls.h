/*
 * TLS over a connected socket, by OpenSSL: tls.c, which is linked into dlock-tls only. In every
 * other program these functions are NULL (cli/other_program.h). The state of a session lives in
 * memory: once a process has forked, one of the two may use it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/deadline.h"
#include "net/io_result.h"

struct failure;
struct server;
struct tls;

#define TLS_ALONE __attribute__((weak))

/* Shakes hands with the server at the other end of fd, which must prove to be `host`, a name or an
 * address, or what its URL has for sni=, unless that says insecure=1. The files that the URL names
 * are read each time: a certificate may be replaced while a lock is held. `peer` is the server's
 * name in messages. fd stays the caller's; it, peer and server are borrowed. tls_close() with *tls
 * after IO_OK. */
TLS_ALONE enum io_result tls_open(struct tls **tls, int fd, const struct server *server,
	const char *host, const char *peer, struct deadline deadline, struct failure *failure);

/* Tells the server nothing: another process may go on with the session. */
TLS_ALONE void tls_close(struct tls *tls);

/* As send(2) and recv(2). -1 with EAGAIN: wait for tls_events() first. A byte that the socket takes
 * no more counts as sent, but for the very first: the server may have said why, and tls_receive()
 * finds it. */
TLS_ALONE ssize_t tls_send(struct tls *tls, const void *data, size_t size);
TLS_ALONE ssize_t tls_receive(struct tls *tls, void *data, size_t size);

/* The events that poll(2) is to wait for. */
TLS_ALONE short tls_events(const struct tls *tls);

/* Whether tls_receive() has something that poll(2) does not tell of. */
TLS_ALONE bool tls_is_ready(const struct tls *tls);

/* Writes which library that is, and its version. */
TLS_ALONE void tls_library(char *text, size_t size);

/* After tls_send() or tls_receive() failed, and after tls_receive() returned 0: says why. IO_CLOSED
 * if another session may do better, else IO_FAILED. */
TLS_ALONE enum io_result tls_explain(const struct tls *tls, struct failure *failure);
