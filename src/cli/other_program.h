/*
 * The programs beside dlock. All are the same sources, each with a library that most runs don't
 * need and that takes longer to load than a run of dlock takes: dlock-tls has OpenSSL, dlock-etcd
 * libcurl, and so on (lock/services.c). Users start dlock. If the server's URL asks for another
 * program, dlock becomes that one, before it has done anything but read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct failure;
struct options;

/* Whether the chosen server needs another program than this one. */
bool other_program_is_needed(const struct options *options);

/* Executes it, with the same arguments, environment, signals and descriptors. Returns only with
 * failure, false: EXIT_USAGE or EXIT_CONFIG when it is not installed, EXIT_SYSTEM when it cannot be
 * executed, EXIT_USAGE when the configuration cannot be read a second time. */
bool other_program_become(char **argv, const struct options *options, struct failure *failure);

/* The library for which that program stands, as its --version says: "libpq 17.2". False: it is not
 * installed, or does not say. */
bool other_program_library(const char *program, char *text, size_t size);
