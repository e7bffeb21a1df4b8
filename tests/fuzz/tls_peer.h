/* A TLS server at the far end of a connection, for fuzzers: it really speaks it, and says what the
 * fuzzer wants. OpenSSL's chance is always the same. */
#ifndef TLS_PEER_H
#define TLS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct world_voice;

struct tls_peer {
	int version;        /* the only one that it speaks; 0: no TLS, it says all as it stands */
	bool distrusted;    /* it must never hear a request */
	bool asks;          /* for a client's certificate, */
	bool insists;       /* and ends the session where there is none that it trusts */
	bool other;         /* shows the other certificate */
	size_t spoil_at;    /* which of the bytes that it sends is changed */
	uint8_t spoil_with; /* 0: that and what follows is not sent, and it closes */
};

/* Once, before all else: makes a key, and two certificates of it, for "node" and ::1; the other one
 * is a client's only. */
void tls_peer_begin(void);

/* In PEM. */
const char *tls_peer_certificate(bool other);
const char *tls_peer_key(void);

/* What the voice plays from now on. A run is aborted where a request can be read by others. */
void tls_peer_play(const struct tls_peer *peer);

/* Of its acts: k, n a new key, and the other side's as well or not; t a session ticket; r asks for
 * another handshake; c ends the session; g what is said next is not encrypted. Any other is said.
 */
extern const struct world_voice tls_peer_voice;

#endif
