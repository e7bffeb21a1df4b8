/* Whether the scripts work on a server, and are kept there. */
#ifndef DLOCK_REDIS_CHECK_SCRIPTS_CHECK_H
#define DLOCK_REDIS_CHECK_SCRIPTS_CHECK_H

struct probe;

/* Takes a lock for trial, reports, and leaves nothing behind. */
void scripts_check(struct probe *probe);

#endif
