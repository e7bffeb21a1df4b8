/* One server that `dlock check` looks at: asking it, and telling what is found. */
#pragma once

#include "lock/lock.h"
#include "lock/lock_check.h"
#include "net/server.h"
#include "redis/keys.h"
#include "redis/link/connection.h"
#include "redis/link/link.h"

#define PROBE_LIMIT  (5 * NANOS_PER_SEC) /* for each answer */
#define PROBE_CLOCKS INT64_C(1000000)    /* us that two clocks may differ */

#define PROBE_VALUE     128
#define PROBE_QUESTIONS 4

/* One server that is looked at. */
struct probe {
	const struct server *server;
	const struct lock_request *request;
	lock_finding_taker *take;
	void *context;
	bool is_one_of_many; /* a fault of this server is not yet a fault of all */
	struct link link;
	struct server own;          /* then it is this one, */
	char text[PLACE_TEXT + 16]; /* with this URL */
	struct reply
		*info[PROBE_QUESTIONS]; /* owned; to INFO, and to CONFIG GET for some settings */
	char name[40];                  /* of a lock that no other client takes, */
	struct keys keys;               /* and its keys */
	int64_t ahead_us;               /* of this host's clock */
	bool timed;                     /* ahead_us is known */
	enum exit_code code;            /* of the first finding that makes it unfit; EXIT_DONE */
};

/* Tells a finding; found is printf-like. The code counts if the verdict is LOCK_UNFIT; then there
 * is always some advice, by the code if none is given. */
void probe_report(struct probe *probe, const char *subject, enum lock_verdict verdict,
	enum exit_code code, const char *advice, const char *found, ...)
	__attribute__((format(printf, 6, 7)));

/* The two without a code. `probe` is in scope. */
#define FIT(subject, ...) probe_report(probe, subject, LOCK_FIT, EXIT_DONE, NULL, __VA_ARGS__)
#define DOUBT(subject, advice, ...)                                                                \
	probe_report(probe, subject, LOCK_DOUBTFUL, EXIT_DONE, advice, __VA_ARGS__)

/* Tells a failure, which makes it unfit. False. */
bool probe_fail(struct probe *probe, const char *subject, const struct failure *failure);

/* Sends count commands, then reads as many replies, which may be errors; reply_free() with each.
 * False: none was read, which was told under that subject (NULL: it was not). */
struct probe_command {
	const char *words[8]; /* ends with NULL */
};
bool probe_ask(struct probe *probe, const char *subject, const struct probe_command *commands,
	size_t count, struct reply **replies);

/* Sets name and keys. False: out of memory. */
bool probe_name_keys(struct probe *probe);

/* Whether an error says that this user may not run the command, or that there is none. */
bool probe_is_refusal(const char *error);

/* The checks tell what they find. False: the server went away, which was told. */
bool settings_check(struct probe *probe);
bool rights_check(struct probe *probe);
bool latency_check(struct probe *probe);

/* settings.c: what INFO says, cut to fit and made printable; of a setting, if the key is "config."
 * and its name. NULL: not known. */
const char *probe_find(const struct probe *probe, const char *key, char value[static PROBE_VALUE]);
