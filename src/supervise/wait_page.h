/*
 * A wait, as one process tells another of it: the process that waits writes what it knows into a
 * page, and the process that talks to the caller reads it (wait_line.h). With -v there is one line
 * when the wait begins.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "lock/lock.h"

#define WAIT_PAGE_TEXT 1400 /* a NAME of 512 bytes, a holder, and what stands between */

enum wait_line_state { WAIT_LINE_AWAY, WAIT_LINE_BUSY, WAIT_LINE_DRAWN, WAIT_LINE_OVER };

struct wait_news {
	struct lock_answer answer; /* LOCK_BUSY; or LOCK_FAILED, and why: no server is reached */
	nanos at;                  /* when it came */
};

/* Zeros: nothing is known. The waiter writes the half that is not read just now; so a reader that
 * finds `told` unchanged has read one whole. */
struct wait_page {
	atomic_uint told; /* how often the waiter has written; the last is in half told % 2 */
	atomic_int line;  /* enum wait_line_state: which process may write to the terminal */
	nanos since;      /* when the wait for a holder began; 0: there was none */
	struct wait_news half[2];
};

/* The waiter's: the lock is busy, as answer says. Says so with -v, the first time. */
void wait_page_tell(struct wait_page *page, const struct lock_answer *answer);

/* The waiter's: no server can be reached, for that reason. The line is taken away. */
void wait_page_tell_unreached(struct wait_page *page, const struct failure *why);

/* The waiter's, before anything else is written: takes the line away for good. */
void wait_page_end(struct wait_page *page);

/* Reads what the waiter told last, and when it knew; false: nothing yet. Any process. */
bool wait_page_read(struct wait_page *page, struct lock_answer *answer, nanos *at);

/* Draws the text as the line, unless the wait is over, or the terminal is another job's. */
void wait_page_draw(struct wait_page *page, const char *text);
