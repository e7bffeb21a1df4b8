/* What a server says of itself, judged. */
#include "redis/fitness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "redis/connection.h"
#include "redis/fault.h"
#include "server.h"

#define OLDEST      5  /* scripts that write after they looked at the clock: Redis 5 */
#define NEARLY_FULL 90 /* percent */
#define UPTIME_MOST (INT64_C(100) * 366 * 86400) /* seconds */

static bool is(const struct visit *visit, const char *key, const char *wanted)
{
	char value[FACT_SIZE];
	const char *found = facts_find(&visit->facts, key, value);

	return found && strcmp(found, wanted) == 0;
}

/* --- Which server ---------------------------------------------------------------------------- */

static void judge_version(struct visit *visit)
{
	char redis[FACT_SIZE], valkey[FACT_SIZE];
	bool old;

	if (!facts_find(&visit->facts, "redis_version", redis)) {
		visit_tell(visit, "version", LOCK_DOUBTFUL, EXIT_DONE, NULL, "not known");
		return;
	}
	old = strtol(redis, NULL, 10) < OLDEST;
	if (facts_find(&visit->facts, "valkey_version", valkey))
		visit_tell(visit, "version", LOCK_FIT, EXIT_DONE, NULL, "Valkey %s", valkey);
	else
		visit_tell(visit, "version", old ? LOCK_UNFIT : LOCK_FIT, EXIT_UNREACHABLE,
			old ? "Redis 5 or later, or Valkey" : NULL, "Redis %s", redis);
}

/* False: nothing can be written here, so the rest need not be tried. */
static bool judge_role(struct visit *visit)
{
	char host[FACT_SIZE] = "?", port[FACT_SIZE] = "?";

	/* Valkey's name for it is the second, since 8.0. */
	if (is(visit, "redis_mode", "sentinel") || is(visit, "server_mode", "sentinel")) {
		visit_tell(visit, "role", LOCK_UNFIT, EXIT_UNREACHABLE,
			"name it in redis+sentinel://HOST/SERVICE",
			"a Sentinel, which keeps no keys");
		return false;
	}
	if (is(visit, "role", "slave")) {
		facts_find(&visit->facts, "master_host", host);
		facts_find(&visit->facts, "master_port", port);
		visit_tell(visit, "role", LOCK_UNFIT, EXIT_UNREACHABLE,
			"name its master, or Sentinels that know who that is",
			"a replica of %s:%s, which takes no writes", host, port);
		return false;
	}
	if (is(visit, "cluster_enabled", "1"))
		visit_tell(visit, "role", LOCK_FIT, EXIT_DONE, NULL,
			"a node of a Cluster; the others want looking at as well");
	else if (is(visit, "role", "master"))
		visit_tell(visit, "role", LOCK_FIT, EXIT_DONE, NULL, "a master");
	else
		visit_tell(visit, "role", LOCK_DOUBTFUL, EXIT_DONE, NULL, "not known");
	return true;
}

/* --- What a restart, an eviction, a failover loses -------------------------------------------- */

static const char *describe_losses(const struct visit *visit)
{
	char value[FACT_SIZE];

	if (is(visit, "aof_enabled", "1")) {
		if (is(visit, "config.appendfsync", "always"))
			return NULL;
		if (is(visit, "config.appendfsync", "everysec"))
			return "appendfsync everysec: a host that fails loses the last 2s of "
			       "grants";
		if (is(visit, "config.appendfsync", "no"))
			return "appendfsync no: a host that fails loses the last 30s of grants, or "
			       "more";
		return "appendonly yes, but how often that is synced is not known: CONFIG is "
		       "refused";
	}
	if (!facts_find(&visit->facts, "aof_enabled", value))
		return "not known: INFO does not say";
	if (is(visit, "config.save", ""))
		return "nothing is kept on disk: a restart loses every lock";
	return "snapshots at most: a restart loses every lock taken since the last one";
}

static bool is_settled(const struct visit *visit)
{
	return visit->request->settle_ms >= visit->request->ttl_ms;
}

static void judge_persistence(struct visit *visit)
{
	const char *losses = describe_losses(visit);
	char advice[160], ttl[DURATION_TEXT];

	duration_format(visit->request->ttl_ms * NANOS_PER_MS, ttl);
	snprintf(advice, sizeof(advice),
		"settle = %s in the configuration (--settle), or appendonly yes and appendfsync "
		"always",
		ttl);
	if (!losses)
		visit_tell(visit, "persistence", LOCK_FIT, EXIT_DONE, NULL,
			"appendfsync always: a restart loses nothing");
	else if (is_settled(visit))
		visit_tell(visit, "persistence", LOCK_FIT, EXIT_DONE, NULL,
			"%s; --settle keeps newcomers off meanwhile", losses);
	else
		visit_tell(visit, "persistence", LOCK_DOUBTFUL, EXIT_DONE, advice, "%s", losses);
	if (is(visit, "rdb_last_bgsave_status", "err") || is(visit, "aof_last_write_status", "err"))
		visit_tell(visit, "disk", LOCK_DOUBTFUL, EXIT_DONE,
			"see its log: it may refuse all writes until it can save again",
			"its last attempt to save failed");
}

static void judge_uptime(struct visit *visit)
{
	int64_t seconds = facts_number(&visit->facts, "uptime_in_seconds");
	bool early = seconds >= 0 && seconds * 1000 < visit->request->ttl_ms && !is_settled(visit);
	char span[DURATION_TEXT];

	if (seconds > UPTIME_MOST)
		seconds = UPTIME_MOST;
	if (seconds < 0)
		visit_tell(visit, "uptime", LOCK_DOUBTFUL, EXIT_DONE, NULL, "not known");
	else
		visit_tell(visit, "uptime", early ? LOCK_DOUBTFUL : LOCK_FIT, EXIT_DONE,
			early ? "wait for a TTL, or --settle: it may have forgotten locks that are "
				"held"
			      : NULL,
			"up for %s", duration_format(seconds * NANOS_PER_SEC, span));
}

static void judge_memory(struct visit *visit)
{
	int64_t most = facts_number(&visit->facts, "maxmemory");
	int64_t used = facts_number(&visit->facts, "used_memory");
	char policy[FACT_SIZE];
	const char *advice = "maxmemory-policy noeviction, or a server of its own for locks";

	if (!facts_find(&visit->facts, "maxmemory_policy", policy) || most < 0)
		visit_tell(visit, "memory", LOCK_DOUBTFUL, EXIT_DONE, advice, "policy not known");
	else if (strcmp(policy, "noeviction") != 0 && most > 0)
		visit_tell(visit, "memory", LOCK_UNFIT, EXIT_UNREACHABLE, advice,
			"maxmemory-policy %s: locks, which have an expiry, are evicted when memory "
			"is short",
			policy);
	else if (strcmp(policy, "noeviction") != 0)
		visit_tell(visit, "memory", LOCK_DOUBTFUL, EXIT_DONE, advice,
			"maxmemory-policy %s would evict locks, were maxmemory set", policy);
	else if (most > 0 && used > most / 100 * NEARLY_FULL)
		visit_tell(visit, "memory", LOCK_DOUBTFUL, EXIT_DONE,
			"more maxmemory, or fewer keys: once it is full it takes no locks",
			"%" PRId64 "%% of maxmemory in use", used / (most / 100 + 1));
	else
		visit_tell(visit, "memory", LOCK_FIT, EXIT_DONE, NULL,
			"maxmemory-policy noeviction: nothing is evicted");
}

static void judge_replicas(struct visit *visit)
{
	int64_t replicas = facts_number(&visit->facts, "connected_slaves");
	int64_t least = facts_number(&visit->facts, "config.min-replicas-to-write");

	if (replicas < 0)
		visit_tell(visit, "replicas", LOCK_DOUBTFUL, EXIT_DONE, NULL, "not known");
	else if (replicas == 0)
		visit_tell(visit, "replicas", LOCK_FIT, EXIT_DONE, NULL,
			"none, so there is no failover that could lose a lock");
	else if (least > 0)
		visit_tell(visit, "replicas", LOCK_FIT, EXIT_DONE, NULL,
			"%" PRId64 ", min-replicas-to-write %" PRId64, replicas, least);
	else
		visit_tell(visit, "replicas", LOCK_DOUBTFUL, EXIT_DONE,
			"--wait-replicas 1 and min-replicas-to-write 1, or a quorum of independent "
			"servers",
			"%" PRId64 ": a failover loses the grants that none of them has yet",
			replicas);
}

/* --------------------------------------------------------------------------------------------- */

/* What is refused is then not known. */
static bool learn(struct visit *visit, struct failure *failure)
{
	static const struct command questions[] = {
		{.words = {"INFO"}},
		{.words = {"CONFIG", "GET", "appendfsync"}},
		{.words = {"CONFIG", "GET", "save"}},
		{.words = {"CONFIG", "GET", "min-replicas-to-write"}},
	};
	enum { COUNT = sizeof(questions) / sizeof(questions[0]) };
	struct reply *replies[COUNT];
	const char *error;
	bool good;

	if (!visit_ask(visit, questions, COUNT, replies, failure))
		return false;
	error = reply_error(replies[0]);
	good = !error || visit_is_refusal(error);
	if (!good)
		fault_read(error, visit->server->text, failure);
	facts_add_info(&visit->facts, replies[0]);
	for (size_t i = 1; i < COUNT; i++)
		facts_add_setting(&visit->facts, replies[i]);
	for (size_t i = 0; i < COUNT; i++)
		reply_free(replies[i]);
	return good;
}

bool fitness_facts(struct visit *visit)
{
	struct failure failure;
	bool master;

	if (!learn(visit, &failure)) {
		visit_tell(visit, "reach", LOCK_UNFIT, failure.code, NULL, "%s", failure.text);
		return false;
	}
	if (!visit->facts.text) {
		visit_tell(visit, "info", LOCK_DOUBTFUL, EXIT_DONE, "let the user call INFO",
			"the server says nothing of itself: INFO is refused");
		return true;
	}
	judge_version(visit);
	master = judge_role(visit);
	judge_persistence(visit);
	judge_uptime(visit);
	judge_memory(visit);
	judge_replicas(visit);
	return master;
}
