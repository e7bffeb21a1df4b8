/* Who holds a lock, in words. Pure. */
#ifndef DLOCK_HOLDER_H
#define DLOCK_HOLDER_H

#include <stddef.h>

#include "clock.h"

struct lock_answer;

#define HOLDER_TEXT 700 /* enough for the longest party, and the name of its lock */

/* "held by web3:4121 (deploy, make) for 2m13s"; of several locks "NAME is held …". From an answer
 * of LOCK_BUSY that was given `since` ns ago. Returns text. */
const char *holder_describe(
	const struct lock_answer *answer, nanos since, char text[static HOLDER_TEXT]);

#endif
