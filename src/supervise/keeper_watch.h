/*
 * Watching over a keeper, from its fork to its end. Signals are passed on to it, its stops and
 * wakeups are handled. If it dies or stands still while COMMAND's lease runs out, COMMAND's tree is
 * stopped from here. Knows processes and the shared page, nothing of requests.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "process/bystander.h"
#include "process/process_tree.h"
#include "process/stopping.h"
#include "supervise/guardian.h"

struct caller_state;
struct keeper_task;
struct lease;

struct keeper_watch {
	const struct caller_state *caller_state; /* borrowed */
	struct lease *lease;                     /* owned */
	struct process_tree tree; /* empty, unless the keeper dies: then its children become ours.
				     If it is not our child they do not: command_ward.c */
	nanos note_at; /* when to record anew what is not COMMAND's, or what is but will not be ours
			*/
	struct guardian guardian; /* the front's; reaped here when the keeper has dismissed it */
	struct stopping stopping;
	struct bystander bystander; /* on a terminal, while COMMAND shares our group */
	pid_t keeper; /* 0: none, or reaped */
	int keeper_fd, wakeup_fd, timer;
	int ending_fd;       /* signals that end a wait, as data; all are passed on to COMMAND */
	int other_fd;        /* the other signals that are passed on */
	int ending_signal;   /* the last of ending_fd's that came after the grant; 0: none */
	int terminal_signal; /* INT or QUIT that the terminal sent to COMMAND and us; 0: none */
	nanos asking_since;  /* no later than this, or so little that the slack covers it, counts a
				grant */
	nanos answer_until;  /* when the keeper must have told what became of the request; later
				than its task says if the front notices that only then */
	bool answer_late;    /* the front has noticed */
	bool stood_still;    /* the keeper did not act when the lease ran out */
	unsigned rounds;     /* lease->rounds when it was last looked at, */
	nanos moved_at;      /* which was then */
	bool overrun;        /* the keeper did not act when --max-run was up */
	bool release_late;   /* the keeper has not released the lock in time */
	nanos next_round;    /* when to kill it again, if it is not gone by then */
	struct notify *notify; /* borrowed; NULL: no service manager is told of anything */
	nanos prepare_at;    /* when to open what killing needs; NANOS_NEVER: done */
};

enum keeper_watch_end {
	KEEPER_WATCH_OVER, /* the keeper has done its work, or no longer needs us: see the lease */
	KEEPER_WATCH_CANCELLED, /* one of ending_fd's signals came before the lock was granted: see
				 * signal
				 */
	KEEPER_WATCH_LATE, /* no answer to the request in time, not even from the keeper: killed */
	KEEPER_WATCH_DIED, /* the keeper died before its work was done */
};

/* Opens what watching needs; but for a run, its tree is to be opened too. False with errno. */
bool keeper_watch_open(struct keeper_watch *watch, const struct caller_state *caller_state);

/* Forks a keeper for a request that is under way; task->lease and task->wakeup_fd are filled in
 * here, and the lease is reset. False with errno. */
bool keeper_watch_start(struct keeper_watch *watch, struct keeper_task *task);

/* Watches until one of the ends above. *signal is set with KEEPER_WATCH_CANCELLED. */
enum keeper_watch_end keeper_watch_run(
	struct keeper_watch *watch, const struct keeper_task *task, int *signal);

/* Takes the signals that came while the keeper ended: a Ctrl-C reaches COMMAND and us at once, but
 * we may see COMMAND's end first. They no longer go anywhere. */
void keeper_watch_record_signals(struct keeper_watch *watch);

/* After KEEPER_WATCH_DIED: stops what the keeper left, which is ours now. COMMAND died with it
 * (PR_SET_PDEATHSIG) or before it; stopping.begun tells whether there was anything. Nobody renews
 * meanwhile: SIGKILL comes before validity ends. */
void keeper_watch_stop_orphans(struct keeper_watch *watch, const struct keeper_task *task);
