/* The holder of a lock, in words. */
#pragma once

#include "base/clock.h"
#include "lock/lock.h"

#define HOLDER_TEXT 700 /* enough for the longest party, and the name of its lock */

/* "held by web3:4121 (deploy, make) for 2m13s"; of several locks "NAME is held …". From an answer
 * of LOCK_BUSY that was given `since` ns ago. Pure. Returns text. */
const char *holder_describe(
	const struct lock_answer *answer, nanos since, char text[static HOLDER_TEXT]);

/* Says with -v what there is to say of a grant. */
void holder_say_grant(const struct lock_answer *answer);
