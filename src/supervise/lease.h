/*
 * The lease in time, and the page that the front and the keeper share about it.
 *
 *	asked_at            stop_at        kill_at  valid_until     expiry
 *	   |---- renewals ----|--- grace ----|- 250 ms -|-- margin --|
 *
 * A lease counts from before the request that was granted left. The margin, a tenth of the TTL,
 * covers clocks that run at different rates (a slewing clock reaches 8 %).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/clock.h"
#include "lock/lock.h"
#include "lock/nesting.h"
#include "supervise/wait_page.h"

#define LEASE_KILL_RESERVE                                                                         \
	(250 * NANOS_PER_MS) /* measured: fifty setsid chains are gone in 94 ms */
#define LEASE_SURVIVORS 16
#define LEASE_HOSTS     16
/* How long the release of a lock is tried; and what it gets if it is noticed late that this is over
 * (deadline.h). The limit is less than the front waits for a keeper that releases (RELEASE_SLACK in
 * keeper_watch.c). */
#define LEASE_RELEASE_LIMIT (2 * NANOS_PER_SEC)
#define LEASE_RELEASE_LEAST (250 * NANOS_PER_MS)

#define LEASE_TOO_LATE "the lock was granted too late for its TTL, and was released"

struct lease_terms {
	nanos ttl;      /* NANOS_NEVER: the lock does not expire while a process holds it */
	nanos grace;    /* between the stop signal and SIGKILL */
	nanos at_least; /* from the grant on: what the server keeps the lock for, come what may */
	nanos max_run;  /* from the grant on: what COMMAND and its tree may run; 0: no limit */
};

/* The moments above, from the moment of the request or the end of validity. Pure. */
nanos lease_valid_until(const struct lease_terms *terms, nanos asked_at);
nanos lease_stop_at(const struct lease_terms *terms, nanos valid_until);
nanos lease_kill_at(nanos valid_until);

/* How long after the last successful request the next renewal is due: a third of the TTL, but at
 * least twice before stop_at. Pure. */
nanos lease_renew_every(const struct lease_terms *terms);

/* When the first renewal is due: at once if the lock is to be kept for longer than its TTL, as the
 * request has not asked for that. Pure. */
nanos lease_first_renewal(const struct lease_terms *terms, nanos asked_at);

/* When max_run is up; NANOS_NEVER: there is no limit. Pure. */
nanos lease_overrun_at(const struct lease_terms *terms, nanos granted_at);

enum lease_phase {
	LEASE_ASKING,    /* the keeper asks for the lock, and waits for it */
	LEASE_CANCELLED, /* the front wants it no longer: the keeper takes back what it asked for */
	LEASE_HELD,      /* COMMAND runs */
	LEASE_STOPPING,  /* the keeper has sent the stop signal */
	LEASE_KILLING,   /* the keeper has sent SIGKILL */
	LEASE_LINGERING, /* COMMAND ended, its descendants keep the lock; or the caller of hold has
			    it; the front may leave */
	LEASE_RELEASING, /* the tree is gone, or -o: the lock is being released */
	LEASE_ENDED,     /* the keeper has done its work: the lock was released, or was not had */
};

/* Why the tree was stopped, if it was. */
enum lease_stop {
	STOP_NONE,
	STOP_LOST,
	STOP_UNPROVED,
	STOP_FRONT_GONE,
	STOP_MAX_RUN,
	STOP_FIRST_ENDS, /* COMMAND has ended, and with the front all of its PID namespace does */
};

/* The beginning of a lease: all that a guest reads of its host's (guest.h). The guest may be of
 * another release, so this changes with GUEST_FORMAT alone. */
struct lease_lent {
	_Atomic nanos valid_until; /* by the host's own requests */
	nanos ttl;                 /* the first of its terms */
};

/*
 * Shared by the front and both threads of the keeper: atomics, and plain data that is written
 * before the phase that publishes it (release) and read after it (acquire), or after the keeper's
 * death. From fork to the end there is one writer of each: the phase is moved from ASKING by the
 * first of the two, then by the keeper; valid_until and lost are the renewal's.
 */
struct lease {
	/* struct lease_lent */
	_Atomic nanos valid_until; /* by our own requests: see lease_validity */
	struct lease_terms terms;  /* the front's before the keeper is forked; with the TTL that was
				      really granted once HELD */

	_Atomic(enum lease_phase) phase;
	_Atomic nanos answer_due; /* ASKING: when the keeper must have heard from the server */
	atomic_bool lost;         /* proven: another has, or had, the lock */
	atomic_int reclaimed;     /* how often it was set again */
	atomic_bool command_over; /* COMMAND has ended, command_status is there */
	atomic_bool told; /* the caller is about to learn how COMMAND ended, though what that left
			     keeps the lock; of hold: that it has the lock. The front's; or the
			     keeper's, if it stops what is left for a first process */
	atomic_bool command_stopped; /* by a stop signal: Ctrl-Z */
	atomic_bool doubted;  /* a lock that is lost, or without proof, and COMMAND goes on */
	atomic_bool notified; /* the service manager knows of the grant; the front's (notify.h) */

	_Atomic(pid_t) command; /* its pid; 0: not started yet */
	atomic_uint rounds;     /* moves on while the keeper is at work on stopping */

	nanos granted_at;                 /* once HELD */
	int command_status;               /* as from waitpid(2), once command_over */
	struct failure start_failure;     /* once ENDED: why COMMAND could not be started */
	nanos release_until;              /* once RELEASING: when the keeper gives up trying */
	enum lease_stop stop;             /* once STOPPING, LINGERING or RELEASING */
	nanos held;                       /* once ENDED or LINGERING */
	pid_t survivors[LEASE_SURVIVORS]; /* the processes that could not be stopped, or linger;
					     0-terminated unless full */
	char token[LOCK_TOKEN_SIZE];      /* the lock's, before it is asked with: the keeper's */
	bool unheard; /* once ENDED without a grant: the server has not said that it gave us no lock
		       * after all; the keeper goes on trying */
	nanos answered_at; /* once ENDED without a grant: when the last denial came; 0: none did */
	struct lock_answer answer; /* the answer to the last request; large, so these come last */
	atomic_bool has_learnt;    /* `learnt` is there; the front's */
	char learnt[NESTING_HELD]; /* nesting->held, once the front has looked at the ancestors */
	bool covered; /* the caller of hold has the lock by another hold: no keeper is needed */
	struct wait_page waits;

	/* The front's before the keeper is forked; they are for these two alone. */
	int fd; /* the page as a file, to lend it to guests; -1: it cannot be lent */
	const struct lease_lent *hosts[LEASE_HOSTS]; /* of a guest; NULL behind the last */
	struct owner owner; /* on record as the holder: the front's until HELD, then the keeper's */
};

_Static_assert(offsetof(struct lease, valid_until) == offsetof(struct lease_lent, valid_until) &&
		       offsetof(struct lease, terms.ttl) == offsetof(struct lease_lent, ttl),
	"what guests read is at the beginning");

/* A shared mapping, zeroed: ASKING, no time for an answer. NULL with errno. */
struct lease *lease_open(void);

/* Zeroed again, but for the terms, the file and the hosts: for another keeper. */
void lease_begin_anew(struct lease *lease);

/* Until when it is proved that the lock is held: by our own requests, and by those of our
 * hosts (guest.h). 0: it is not granted yet. */
nanos lease_validity(const struct lease *lease);

/* Takes over the TTL that a lock was granted with (lock_answer.ttl_ms), if it is not the one that
 * was asked for; the grace gets no more of it than it leaves room for. */
void lease_adopt_ttl(struct lease *lease, int64_t ttl_ms);

/* Moves the phase on from ASKING; false if the other process did. */
bool lease_decide(struct lease *lease, enum lease_phase phase);
