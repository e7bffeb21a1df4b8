/*
 * What is seen of a wait. On a terminal it is one line, redrawn in place every second, as long as
 * dlock is in the foreground; with -v it is one line when the wait begins; else nothing. Its timer
 * also wakes the front once, and again and again for what a service manager is told (notify.h).
 */
#pragma once

#include <stdbool.h>

#include "base/clock.h"
#include "lock/lock.h"
#include "supervise/notify.h"

struct wait_line {
	const char *name;                 /* of the lock; borrowed */
	const struct lock_answer *answer; /* the last LOCK_BUSY; borrowed */
	nanos answered_at;
	nanos started;          /* when the wait began; 0: not yet */
	int cancel_fd;          /* borrowed */
	int timer, both_fd;     /* owned; -1: nothing is to be done meanwhile */
	nanos draw_at, wake_at; /* NANOS_NEVER: not at all, or not any more */
	struct notify *notify;  /* borrowed */
	bool drawn;
};

/* Whether a line would be drawn: stderr is a terminal, and -q was not given. */
bool wait_line_is_wanted(void);

/* cancel_fd: becomes readable when the wait is to end. */
void wait_line_open(struct wait_line *line, const char *name, int cancel_fd, struct notify *notify);

/* The lock is busy, as answer says, and its queue is listened to from now on. Returns a descriptor
 * that becomes readable when cancel_fd does, when the line is to be redrawn, or at wake_at
 * (NANOS_NEVER: not at all); or cancel_fd itself if no other is to be had. */
int wait_line_begin(struct wait_line *line, const struct lock_answer *answer, nanos wake_at);

/* Redraws the line if that is due. True: it was that, or wake_at is past; false: cancel_fd is
 * readable. */
bool wait_line_goes_on(struct wait_line *line);

/* Takes the line away, before anything else is written. */
void wait_line_end(struct wait_line *line);
