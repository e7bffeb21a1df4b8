/* Whether a server is fit to hold locks: what `dlock check` asks. */
#pragma once

#include "base/failure.h"

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
	lock_finding_taker *take, void *context, struct failure *failure);
