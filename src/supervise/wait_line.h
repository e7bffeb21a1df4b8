/*
 * A wait, as it is seen. The process that waits writes what it knows into a page; the process that
 * talks to the caller reads it. On a terminal that is one line, redrawn in place every second, as
 * long as dlock is in the foreground; with -v it is one line when the wait begins; else nothing.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "lock/lock.h"

enum wait_line_state { WAIT_LINE_AWAY, WAIT_LINE_BUSY, WAIT_LINE_DRAWN, WAIT_LINE_OVER };

struct wait_news {
	struct lock_answer answer; /* LOCK_BUSY; or LOCK_FAILED, and why: no server is reached */
	nanos at;                  /* when it came */
};

/* Zeros: nothing is known. The waiter writes the half that is not read just now; so a reader that
 * finds `told` unchanged has read one whole. */
struct wait_page {
	atomic_uint told; /* how often the waiter has written; the last is in half told % 2 */
	atomic_int line;  /* enum wait_line_state: who may write to the terminal */
	nanos since;      /* when the wait for a holder began; 0: there was none */
	struct wait_news half[2];
};

struct notify;
struct task;

struct wait_line {
	const struct task *task; /* borrowed */
	struct notify *notify;   /* borrowed; a service manager is told of the wait, too */
	nanos draw_at;           /* NANOS_NEVER: there is no line */
	nanos look_at; /* for a dlock around this one; NANOS_NEVER: not, or not any more */
};

/* Whether a line would be drawn: stderr is a terminal, and -q was not given. */
bool wait_line_is_wanted(void);

/* The waiter's: the lock is busy, as answer says. Says so with -v, the first time. */
void wait_page_tell(struct wait_page *page, const struct lock_answer *answer);

/* The waiter's: no server can be reached, for that reason. The line is taken away. */
void wait_page_tell_unreached(struct wait_page *page, const struct failure *why);

/* The waiter's, before anything else is written: takes the line away for good. */
void wait_page_end(struct wait_page *page);

/* Reads what the waiter told last, and when it knew; false: nothing yet. Any process. */
bool wait_page_read(struct wait_page *page, struct lock_answer *answer, nanos *at);

void wait_line_open(struct wait_line *line, const struct task *task, struct notify *notify);

/* When wait_line_attend has something to do by itself. */
nanos wait_line_due(const struct wait_line *line);

/* Draws the line, tells the service manager, and looks around, as far as that is due. The busy
 * answer: the lock is held by a dlock around this one, though our environment does not tell of it.
 * To look for that takes a tenth of a run's time on the processor; so it is done once, in a wait
 * that is worth it, beside it. NULL: it is not, as far as is known. *learnt: nesting->held has
 * grown, which the service is to know, as it may close a circle of waits. */
const struct lock_answer *wait_line_attend(struct wait_line *line, bool *learnt);
