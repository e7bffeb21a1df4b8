/*
 * A lock for trial, as `dlock check` takes one of every service: one owner takes it, another one
 * queues, looks at it, is handed it and releases it. So all that a run needs is tried, and with
 * it the rights to it.
 */
#pragma once

#include "base/clock.h"
#include "base/failure.h"

#define TRIAL_NAME 64

struct lock_finding;
struct lock_request;
struct server;

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
