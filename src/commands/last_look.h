/* Which holder has the lock when a wait for it is given up. */
#pragma once

struct lock_answer;
struct options;

enum last_look {
	LAST_LOOK_HELD,    /* the answer is up to date */
	LAST_LOOK_FREE,    /* nobody has the lock, or waits for it */
	LAST_LOOK_UNHEARD, /* there was no answer in time, and nothing was changed */
};

/* Asks the server once more, by a connection of its own, and brings what LOCK_BUSY said of the
 * holder up to date. No longer than nobody notices. */
enum last_look last_look(const struct options *options, struct lock_answer *answer);
