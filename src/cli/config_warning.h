/* What is worth a warning about how the configuration names a server. */
#pragma once

#include <stdbool.h>

struct config_entry;
struct options;

/* Begins as zeros; all that it points to is kept by the options. */
struct config_warning {
	const char *user_file; /* the user's own, from when it is read on; NULL: another one is */
	const char *system_server, *user_server; /* as the two files name it; NULL: not at all */
	const char *open_file; /* the last that was found to give a password away */
};

/* A file names a server. Warns, once for each file, of a password that any user may read there; its
 * group may be meant to. chosen: not of another profile; value: the entry's, kept. */
void config_warning_server(struct config_warning *notice, struct options *options,
	const struct config_entry *entry, const char *value, bool chosen);

/* options->server is what a file named: warns if the user's file names another server than the
 * host's. A user that locks elsewhere than all others of this host may not know it. */
void config_warning_choice(
	const struct config_warning *notice, struct options *options, const char *system_file);
