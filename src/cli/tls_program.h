/*
 * dlock and dlock-tls are the same sources. dlock is quick to start and speaks no TLS. dlock-tls is
 * linked with OpenSSL, which alone takes longer to load than a run of dlock takes. So users start
 * dlock. If the server wants TLS, dlock becomes the other program, before it has done anything but
 * read.
 */
#pragma once

#include <stdbool.h>

struct failure;
struct options;

/* Whether the chosen server needs the other program. */
bool tls_program_is_needed(const struct options *options);

/* Executes it, with the same arguments, environment, signals and descriptors. Returns only with
 * failure, false: when there is none, when it cannot be executed, or when the configuration cannot
 * be read a second time. */
bool tls_program_become(char **argv, const struct options *options, struct failure *failure);

/* Whether TLS can be had, from this program or the other. */
bool tls_program_is_there(void);
