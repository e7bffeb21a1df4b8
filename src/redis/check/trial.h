/* Locks for trial. */
#ifndef DLOCK_REDIS_CHECK_TRIAL_H
#define DLOCK_REDIS_CHECK_TRIAL_H

struct probe;

void trial_run(struct probe *probe);

#endif
