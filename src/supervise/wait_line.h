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

struct nesting;
struct owner;

struct wait_line {
	const char *name; /* of the lock; borrowed */
	struct wait_page *page;
	nanos draw_at; /* NANOS_NEVER: there is no line */
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

/* When a wait is to be looked at by wait_page_look; `wait` is the span. */
nanos wait_page_look_at(nanos wait);

/* A dlock around this one may hold the lock that is waited for, though our environment does not
 * tell of it. To look takes a tenth of a run's time on the processor; so it is done once, in a wait
 * that is worth it, beside it. The busy answer: it does. NULL: it does not. *look_at is when to
 * look again; NANOS_NEVER: it is done. *learnt: nesting->held has grown, which the service is to
 * know, as it may close a circle of waits. Any process. */
const struct lock_answer *wait_page_look(struct wait_page *page, nanos *look_at,
	struct nesting *nesting, const struct owner *self, bool *learnt);

void wait_line_open(struct wait_line *line, const char *name, struct wait_page *page);

/* Draws the line if that is due, and sets draw_at, when the next look is due. */
void wait_line_draw(struct wait_line *line);
