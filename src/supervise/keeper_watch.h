/*
 * Watching over a keeper, from its fork to its end. Signals are passed on to it, its stops and
 * wakeups are handled, and while it waits the caller is told so. If it dies or stands still while
 * COMMAND's lease runs out, COMMAND's tree is stopped from here. Knows processes and the shared
 * page, nothing of requests.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "process/bystander.h"
#include "process/process_tree.h"
#include "process/stopping.h"
#include "supervise/wait_line.h"

struct lease;
struct task;

struct keeper_watch {
	const struct task *task;  /* borrowed */
	struct lease *lease;      /* the task's */
	struct process_tree tree; /* empty, unless the keeper dies: then its children become ours.
				     If it is not our child they do not: command_ward.c */
	nanos note_at; /* when to record anew what is not COMMAND's, or what is but will not be ours
			*/
	struct stopping stopping;
	struct bystander bystander; /* on a terminal, while COMMAND shares our group */
	nanos bystander_at; /* when the run is no short one any more; NANOS_NEVER: it is not, or
			     * needs none */
	pid_t keeper;       /* 0: none, or reaped */
	int keeper_fd, timer;
	int ending_fd;       /* signals that end a wait, as data; all are passed on to COMMAND */
	int other_fd;        /* the other signals that are passed on */
	int ending_signal;   /* the last of ending_fd's that came after the grant; 0: none */
	int terminal_signal; /* INT or QUIT that the terminal sent to COMMAND and us; 0: none */
	nanos asking_since;  /* no later than this, or so little that the slack covers it, counts a
				grant */
	nanos answer_more;   /* the keeper gets at least until then for an answer */
	bool answer_late;    /* the front has noticed late that it is due */
	int cancel_signal; /* a signal of ending_fd's that came before the grant, and ends it all; 0
			    */
	bool ward_gone;    /* so does the end of what the lock was for */
	nanos cancel_until; /* then the keeper must have taken back what it asked for */
	struct wait_line line;
	const struct lock_answer *around; /* a dlock around this one was found, by this; NULL */
	bool stood_still;                 /* the keeper did not act when the lease ran out */
	unsigned rounds;                  /* lease->rounds when it was last looked at, */
	nanos moved_at;                   /* which was then */
	bool overrun;                     /* the keeper did not act when --max-run was up */
	bool release_late;                /* the keeper has not released the lock in time */
	bool kills_keeper;     /* no word of the keeper counts any more, but for its end */
	nanos next_round;      /* when to kill it again, if it is not gone by then */
	struct notify *notify; /* borrowed; NULL: no service manager is told of anything */
};

enum keeper_watch_end {
	KEEPER_WATCH_OVER, /* the keeper has done its work, or no longer needs us: see the lease */
	KEEPER_WATCH_LATE, /* the keeper stood still while it asked, or while it took back: killed
			    */
	KEEPER_WATCH_DIED, /* the keeper died before its work was done */
};

/* Opens what watching needs, and the task's descriptors; the watch's tree is to be opened besides.
 * False with errno. */
bool keeper_watch_open(struct keeper_watch *watch, struct task *task, struct notify *notify);

/* The keeper has ended, and is reaped. */
void keeper_watch_close(struct keeper_watch *watch);

/* Has `start` fork the keeper. False with errno. */
bool keeper_watch_start(struct keeper_watch *watch, pid_t (*start)(const struct task *task));

/* Watches until one of the ends above. */
enum keeper_watch_end keeper_watch_run(struct keeper_watch *watch);

/* Takes the signals that came while the keeper ended: a Ctrl-C reaches COMMAND and us at once, but
 * we may see COMMAND's end first. They no longer go anywhere. */
void keeper_watch_record_signals(struct keeper_watch *watch);

/* After KEEPER_WATCH_DIED: stops what the keeper left, which is ours now. COMMAND died with it
 * (PR_SET_PDEATHSIG) or before it; stopping.begun tells whether there was anything. Nobody renews
 * meanwhile: SIGKILL comes before validity ends. */
void keeper_watch_stop_orphans(struct keeper_watch *watch);
