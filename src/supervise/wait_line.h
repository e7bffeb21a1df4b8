/*
 * A wait, as it is shown by the process that talks to the caller: on a terminal by one line,
 * redrawn in place every second, as long as dlock is in the foreground; to a service manager
 * (notify.h).
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"

struct lock_answer;
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

void wait_line_open(struct wait_line *line, const struct task *task, struct notify *notify);

/* When wait_line_attend has something to do by itself. */
nanos wait_line_due(const struct wait_line *line);

/* Draws the line, tells the service manager, and looks around, as far as that is due. The busy
 * answer: the lock is held by a dlock around this one, though our environment does not tell of it.
 * To look for that takes a tenth of a run's time on the processor; so it is done once, in a wait
 * that is worth it, beside it. NULL: it is not, as far as is known. *learnt: nesting->held has
 * grown, which the service is to know, as it may close a circle of waits. */
const struct lock_answer *wait_line_attend(struct wait_line *line, bool *learnt);
