/* A COMMAND that ran under a lock, as a service keeps it on record. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lock/owner.h"

/* Moments are by the service's clock. */
struct lock_run {
	int64_t began_us, ended_us; /* its grant and its release; ended_us 0: none is known */
	int64_t ago_ms;             /* since its end, */
	int64_t began_ms;           /* and since it began */
	int exit;                   /* COMMAND's exit code */
	struct owner owner;
};

/* Fills in how long ago it was, at that moment; without an end, since it began. A moment that lies
 * ahead is of a clock that was set back since: it was just now. Pure. */
void run_date(struct lock_run *run, int64_t now_us);

/* Reads BEGAN|ENDED|EXIT|OWNER, the moments in us, OWNER as of owner_write; or BEGAN alone. It may
 * come from any client that may write to the server. False: it is BEGAN alone, or none. Pure. */
bool run_read(struct lock_run *run, const char *text, int64_t now_us);
