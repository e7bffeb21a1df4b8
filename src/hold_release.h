/* dlock release NAME, without a TOKEN: ends a `dlock hold NAME` from inside its caller. */
#ifndef DLOCK_HOLD_RELEASE_H
#define DLOCK_HOLD_RELEASE_H

struct options;

/* Asks the keepers of our ancestors in turn, the nearest first, and returns the exit code when the
 * lock has been given back; says so in one line where nobody around us holds it. */
int hold_release(const struct options *options);

#endif
