/*
 * Watching over a keeper, from its fork to its end: signals are passed on to it, its stops and
 * news are heeded, and where it dies or stands still while COMMAND's lease runs out, COMMAND's
 * tree is stopped from here. Knows processes and the shared page, nothing of requests.
 */
#ifndef DLOCK_WATCH_H
#define DLOCK_WATCH_H

#include <signal.h>
#include <stdbool.h>

#include "process_tree.h"
#include "stopping.h"

struct inherited;
struct keeper_task;
struct lease;
struct lease_terms;

struct watch {
	const struct inherited *inherited; /* borrowed */
	struct lease *lease;               /* owned */
	struct process_tree tree; /* empty, unless the keeper dies: then its children become ours */
	struct stopping stopping;
	pid_t keeper; /* 0: none, or reaped */
	int keeper_fd, news_fd, timer;
	int ending_fd;       /* signals that end a wait, as data; all are passed on to COMMAND */
	int other_fd;        /* the other signals that are passed on */
	int ending_signal;   /* the last of ending_fd's that came after the grant; 0: none */
	int terminal_signal; /* INT or QUIT that the terminal sent to COMMAND and us; 0: none */
	nanos asking_since;  /* no later than this, or so little that the slack covers it, counts a
				grant */
	bool stood_still;    /* the keeper did not act when the lease ran out */
	bool overrun;        /* nor when --max-run was up */
};

enum watch_end {
	WATCH_OVER,      /* the keeper has done its work, or no longer needs us: see the lease */
	WATCH_CANCELLED, /* one of ending_fd's signals came before the lock was granted: see signal
			  */
	WATCH_LATE,      /* no answer to the request in time, not even from the keeper: killed */
	WATCH_DIED,      /* the keeper died before its work was done */
};

/* Makes this process a reaper and opens what watching needs. False with errno. */
bool watch_open(struct watch *watch, const struct inherited *inherited);

/* Forks a keeper for a request that is under way; task->lease and task->news_fd are filled in
 * here, and the lease is reset. False with errno. */
bool watch_start(struct watch *watch, struct keeper_task *task);

/* Watches until one of the ends above. *signal is set with WATCH_CANCELLED. */
enum watch_end watch_run(struct watch *watch, const struct keeper_task *task, int *signal);

/* Takes the signals that came while the keeper ended: a Ctrl-C reaches COMMAND and us at once, but
 * we may see COMMAND's end first. They no longer go anywhere. */
void watch_note_signals(struct watch *watch);

/* After WATCH_DIED: stops what the keeper left, which is ours now. COMMAND died with it
 * (PR_SET_PDEATHSIG) or before it; stopping.begun tells whether there was anything. Nobody renews
 * meanwhile: SIGKILL comes before validity ends. */
void watch_stop_orphans(struct watch *watch, const struct keeper_task *task);

#endif
