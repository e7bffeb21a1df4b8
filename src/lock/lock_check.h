/*
 * Whether a server is fit to hold locks: what `dlock check` asks. Of every service it takes a lock
 * for trial: one owner takes it, another one queues, looks at it, is handed it and releases it. So
 * all that a run needs is tried, and with it the rights to it.
 */
#pragma once

#include "base/clock.h"
#include "base/failure.h"

#define TRIAL_NAME 64

struct lock_request;
struct server;

/* A finding of `dlock check`. */
enum lock_verdict { LOCK_FIT, LOCK_DOUBTFUL, LOCK_UNFIT };

struct lock_finding {
	const char *server;  /* which one, as messages may show it */
	const char *subject; /* one word: always the same for the same question */
	enum lock_verdict verdict;
	enum exit_code code; /* EXIT_DONE; doubtful, or one of several that need not all be fit:
			      * EXIT_BUSY; else why no lock is safe there */
	const char *found;   /* half a sentence */
	const char *advice;  /* the advice; NULL: none */
	const char *script;  /* lines that an administrator has to run; NULL: none */
};

/* Takes a finding; context is its owner's. */
typedef void lock_finding_taker(const struct lock_finding *finding, void *context);

/* Whether the server, or each of several, is fit to hold locks such as request describes: prefix,
 * TTL, settle, the owner that asks. Its name does not matter. Takes and releases locks under a name
 * of its own. A server that cannot be reached, or is not fit, is a finding; false with failure:
 * nothing could be looked at. Each finding is borrowed for the time of the call. */
bool lock_check_server(const struct server *server, const struct lock_request *request,
	lock_finding_taker *tell, void *context, struct failure *failure);

/* --- For the services ------------------------------------------------------------------------- */

/* Tries a lock of that name with the request's prefix, TTL and owner; each step may take `patience`
 * (a span). Whatever was reached, both are released. False with failure, and *step: what could
 * not be done ("taken", "queued for", ...); static. */
bool trial_run(const struct server *server, const struct lock_request *request, const char *name,
	nanos patience, const char **step, struct failure *failure);

/* The same as a finding, "lock", for tell: with that name, of trial_name. */
void trial_report(const struct server *server, const struct lock_request *request, const char *name,
	lock_finding_taker *tell, void *context);

/* A name that no other lock has. */
const char *trial_name(char name[static TRIAL_NAME]);
