/* dlock status --watch: the table, redrawn in place until q, Ctrl-C or a signal ends it. */
#pragma once

struct options;

/* Returns the exit code; does not return if a signal ended it. */
int status_watch(const struct options *options);
