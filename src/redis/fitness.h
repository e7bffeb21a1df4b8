/* Is a server fit to hold locks? Shared by fitness.c (the backend's function: each server, then all
 * together), fitness_facts.c (what it says of itself), fitness_time.c (round trips and clocks),
 * fitness_rights.c (commands, one by one), fitness_trial.c (locks, taken and given back). */
#ifndef DLOCK_REDIS_FITNESS_H
#define DLOCK_REDIS_FITNESS_H

#include <stdint.h>

#include "lock.h"
#include "redis/facts.h"
#include "redis/session.h"

struct endpoint;
struct reply;
struct server;

#define VISIT_PATIENCE (5 * NANOS_PER_SEC) /* for each answer */
#define VISIT_CLOCKS   INT64_C(1000000)    /* us that two clocks may differ */

/* One server that is looked at. */
struct visit {
	const struct server *server;
	const struct lock_request *request;
	void (*take)(const struct lock_finding *finding, void *context);
	void *context;
	bool is_one_of_many; /* what is wrong with it is not yet wrong with all */
	struct session session;
	struct facts facts;
	int64_t ahead_us;    /* of this host's clock */
	bool timed;          /* ahead_us is known */
	enum exit_code code; /* of the first finding that makes it unfit; EXIT_DONE */
};

/* Tells a finding; found is printf-like. The code counts where the verdict is LOCK_UNFIT; then
 * there is always some advice, by the code if none is given. */
void visit_tell(struct visit *visit, const char *subject, enum lock_verdict verdict,
	enum exit_code code, const char *advice, const char *found, ...)
	__attribute__((format(printf, 6, 7)));

/* Sends count commands, then reads as many replies, which may be errors; reply_free() with each.
 * False with failure: none was read. */
struct command {
	const char *words[8]; /* ends with NULL, if it is shorter */
};
bool visit_ask(struct visit *visit, const struct command *commands, size_t count,
	struct reply **replies, struct failure *failure);

/* Whether an error says that this user may not run the command, or that there is none. */
bool visit_is_refusal(const char *error);

/* Each tells what it finds. False: the server went away, which was told. */
bool fitness_facts(struct visit *visit);
bool fitness_time(struct visit *visit);
bool fitness_rights(struct visit *visit);
void fitness_trial(struct visit *visit);

/* The name of a lock that nobody else takes, and its keys; keys_free() with them. */
struct keys;
bool visit_name_keys(struct visit *visit, char name[static 40], struct keys *keys);

/* For struct backend. */
bool fitness_examine(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure);

#endif
