/* dlock status --watch: the table, redrawn in place until q, Ctrl-C or a signal ends it. */
#ifndef DLOCK_COMMANDS_STATUS_LIVE_H
#define DLOCK_COMMANDS_STATUS_LIVE_H

struct options;

/* Returns the exit code; does not return where a signal ended it. */
int status_watch(const struct options *options);

#endif
