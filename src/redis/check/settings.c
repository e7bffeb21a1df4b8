/* The words of a server about itself, judged. */
#include "redis/check/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/utf8.h"
#include "redis/link/error_reply.h"

#define OLDEST      5 /* scripts that write after they looked at the clock: Redis 5 */
#define FOUND_SIZE  240
#define NEARLY_FULL 90                           /* percent */
#define UPTIME_MOST (INT64_C(100) * 366 * 86400) /* seconds */

#define INFO_MOST (INT64_C(1) << 53) /* of a number: seconds, bytes */

/* The text of INFO, or of a setting, behind the key; NULL: not known. */
static const char *find(const struct probe *probe, const char *key)
{
	const char *line = reply_text(probe->info[0]);
	size_t length = strlen(key);

	for (size_t i = 1; i < PROBE_QUESTIONS; i++) {
		const char *name = reply_text(reply_at(probe->info[i], 0));

		if (name && strncmp(key, "config.", 7) == 0 && strcmp(key + 7, name) == 0)
			return reply_text(reply_at(probe->info[i], 1));
	}
	for (; line && *line; line += strcspn(line, "\r\n"), line += strspn(line, "\r\n"))
		if (strncmp(line, key, length) == 0 && line[length] == ':')
			return line + length + 1;
	return NULL;
}

const char *probe_find(const struct probe *probe, const char *key, char value[static PROBE_VALUE])
{
	const char *text = find(probe, key);

	if (!text)
		return NULL;
	snprintf(value, PROBE_VALUE, "%.*s", (int)strcspn(text, "\r\n"), text);
	return utf8_clean(value);
}

/* As a number, up to INFO_MOST; -1: not known, or none. */
static int64_t find_number(const struct probe *probe, const char *key)
{
	char value[PROBE_VALUE];
	char *end;
	int64_t number;

	if (!probe_find(probe, key, value))
		return -1;
	number = strtoll(value, &end, 10);
	return end == value || *end != '\0' || number < 0 || number > INFO_MOST ? -1 : number;
}

static bool is(const struct probe *probe, const char *key, const char *wanted)
{
	char value[PROBE_VALUE];
	const char *found = probe_find(probe, key, value);

	return found && strcmp(found, wanted) == 0;
}

/* Servers that speak Redis, by a line of INFO that only they have. */
static const struct kin {
	const char *key, *name;
	const char *advice; /* NULL: dlock is at home there */
} kin[] = {
	{"valkey_version", "Valkey", NULL},
	{"dragonfly_version", "Dragonfly",
		"dlock is not tested with it: try it before you rely on it"},
	{"kvrocks_version", "Kvrocks", "dlock is not tested with it: try it before you rely on it"},
	{"redict_version", "Redict", "dlock is not tested with it: try it before you rely on it"},
	{"garnet_version", "Garnet", "Redis or Valkey: its scripts may not do what dlock needs"},
	{"mvcc_depth", "KeyDB", "no active replicas: two of them would each give the lock"},
	{"rlec_version", "Redis Enterprise",
		"no Active-Active database: two of its places would each give the lock"},
};

static bool judge_kin(struct probe *probe)
{
	char version[PROBE_VALUE];

	for (size_t i = 0; i < sizeof(kin) / sizeof(kin[0]); i++) {
		if (!probe_find(probe, kin[i].key, version))
			continue;
		if (strcmp(kin[i].key, "mvcc_depth") == 0)
			probe_find(probe, "redis_version", version);
		probe_report(probe, "version", kin[i].advice ? LOCK_DOUBTFUL : LOCK_FIT,
			EXIT_UNREACHABLE, kin[i].advice, "%s %s", kin[i].name, version);
		return true;
	}
	return false;
}

static void judge_version(struct probe *probe)
{
	char redis[PROBE_VALUE];
	bool old;

	if (judge_kin(probe))
		return;
	if (!probe_find(probe, "redis_version", redis)) {
		DOUBT("version", NULL, "not known");
		return;
	}
	old = strtol(redis, NULL, 10) < OLDEST;
	probe_report(probe, "version", old ? LOCK_UNFIT : LOCK_FIT, EXIT_UNREACHABLE,
		old ? "Redis 5 or later, or Valkey" : NULL, "Redis %s", redis);
}

/* False: nothing can be written here, so the rest need not be tried. */
static bool judge_role(struct probe *probe)
{
	char host[PROBE_VALUE] = "?", port[PROBE_VALUE] = "?";

	/* Valkey's name for it is the second, since 8.0. */
	if (is(probe, "redis_mode", "sentinel") || is(probe, "server_mode", "sentinel")) {
		probe_report(probe, "role", LOCK_UNFIT, EXIT_UNREACHABLE,
			"name it in redis+sentinel://HOST/SERVICE",
			"a Sentinel, which keeps no keys");
		return false;
	}
	if (is(probe, "role", "slave")) {
		probe_find(probe, "master_host", host);
		probe_find(probe, "master_port", port);
		probe_report(probe, "role", LOCK_UNFIT, EXIT_UNREACHABLE,
			"name its master, or Sentinels, which know it",
			"a replica of %s:%s, which takes no writes", host, port);
		return false;
	}
	if (is(probe, "cluster_enabled", "1"))
		FIT("role", "a node of a Cluster; the others want looking at as well");
	else if (is(probe, "role", "master"))
		FIT("role", "a master");
	else
		DOUBT("role", NULL, "not known");
	return true;
}

/* --- What a restart, an eviction, a failover loses -------------------------------------------- */

static const char *describe_losses(const struct probe *probe)
{
	char value[PROBE_VALUE];

	if (is(probe, "aof_enabled", "1")) {
		if (is(probe, "config.appendfsync", "always"))
			return NULL;
		if (is(probe, "config.appendfsync", "everysec"))
			return "appendfsync everysec: a host that fails loses the last 2s of "
			       "grants";
		if (is(probe, "config.appendfsync", "no"))
			return "appendfsync no: a host that fails loses the last 30s of grants, or "
			       "more";
		return "appendonly yes, but how often that is synced is not known: CONFIG is "
		       "refused";
	}
	if (!probe_find(probe, "aof_enabled", value))
		return "not known: INFO does not say";
	if (is(probe, "config.save", ""))
		return "nothing is kept on disk: a restart loses every lock";
	return "snapshots at most: a restart loses every lock taken since the last one";
}

/* Then even the lock of a holder that does not return has run out before a waiter gets it. */
static bool is_settled(const struct probe *probe)
{
	return probe->request->settle_ms >= probe->request->ttl_ms;
}

/* The use of a shorter settle time for locks that are lost. */
static void describe_return(
	const struct probe *probe, const char *losses, char text[static FOUND_SIZE])
{
	char span[DURATION_TEXT], value[PROBE_VALUE];
	bool known = probe_find(probe, "aof_enabled", value);

	duration_format_given(probe->request->settle_ms * NANOS_PER_MS, span);
	if (known && probe->request->settle_ms > 0)
		snprintf(text, FOUND_SIZE,
			"%s; --settle %s lets holders return, but not one that is cut off", losses,
			span);
	else
		snprintf(text, FOUND_SIZE, "%s", losses);
}

static void judge_persistence(struct probe *probe)
{
	const char *losses = describe_losses(probe);
	char advice[160], ttl[DURATION_TEXT], found[FOUND_SIZE];

	duration_format_given(probe->request->ttl_ms * NANOS_PER_MS, ttl);
	snprintf(advice, sizeof(advice),
		"settle = %s in the configuration (--settle), or appendonly yes and appendfsync "
		"always",
		ttl);
	if (!losses)
		FIT("persistence", "appendfsync always: a restart loses nothing");
	else if (is_settled(probe))
		FIT("persistence", "%s; --settle keeps newcomers off meanwhile", losses);
	else {
		describe_return(probe, losses, found);
		DOUBT("persistence", advice, "%s", found);
	}
	if (is(probe, "rdb_last_bgsave_status", "err") || is(probe, "aof_last_write_status", "err"))
		DOUBT("disk", "see its log: it may refuse all writes until it can save again",
			"its last attempt to save failed");
}

static void judge_uptime(struct probe *probe)
{
	int64_t seconds = find_number(probe, "uptime_in_seconds");
	bool early = seconds >= 0 && seconds * 1000 < probe->request->ttl_ms && !is_settled(probe);
	char span[DURATION_TEXT];

	if (seconds > UPTIME_MOST)
		seconds = UPTIME_MOST;
	if (seconds < 0)
		DOUBT("uptime", NULL, "not known");
	else
		probe_report(probe, "uptime", early ? LOCK_DOUBTFUL : LOCK_FIT, EXIT_DONE,
			early ? "wait for a TTL, or --settle for one: it may have forgotten locks "
				"that are held"
			      : NULL,
			"up for %s", duration_format(seconds * NANOS_PER_SEC, span));
}

static void judge_memory(struct probe *probe)
{
	int64_t most = find_number(probe, "maxmemory");
	int64_t used = find_number(probe, "used_memory");
	char policy[PROBE_VALUE];
	const char *advice = "maxmemory-policy noeviction, or a server of its own for locks";

	if (!probe_find(probe, "maxmemory_policy", policy) || most < 0)
		DOUBT("memory", advice, "policy not known");
	else if (strcmp(policy, "noeviction") != 0 && most > 0)
		probe_report(probe, "memory", LOCK_UNFIT, EXIT_UNREACHABLE, advice,
			"maxmemory-policy %s: locks, which have an expiry, are evicted when memory "
			"is short",
			policy);
	else if (strcmp(policy, "noeviction") != 0)
		DOUBT("memory", advice, "maxmemory-policy %s would evict locks, were maxmemory set",
			policy);
	else if (most > 0 && used > most / 100 * NEARLY_FULL)
		DOUBT("memory", "more maxmemory, or fewer keys: once it is full it takes no locks",
			"%" PRId64 "%% of maxmemory in use", used / (most / 100 + 1));
	else
		FIT("memory", "maxmemory-policy noeviction: nothing is evicted");
}

/* How many replicas a write must have at least. Before Redis 6 a script wrote without them. */
static int64_t least_replicas(const struct probe *probe)
{
	char redis[PROBE_VALUE];

	if (probe_find(probe, "redis_version", redis) && strtol(redis, NULL, 10) < 6)
		return 0;
	return find_number(probe, "config.min-replicas-to-write");
}

static void judge_replicas(struct probe *probe)
{
	int64_t replicas = find_number(probe, "connected_slaves");
	int64_t least = least_replicas(probe);

	if (replicas < 0)
		DOUBT("replicas", NULL, "not known");
	else if (replicas == 0)
		FIT("replicas", "none, so there is no failover that could lose a lock");
	else if (least > 0)
		FIT("replicas", "%" PRId64 ", min-replicas-to-write %" PRId64, replicas, least);
	else
		DOUBT("replicas",
			"--wait-replicas 1 and min-replicas-to-write 1, or a quorum of independent "
			"servers",
			"%" PRId64 ": a failover loses the grants that none of them has yet",
			replicas);
}

static bool learn(struct probe *probe)
{
	static const struct probe_command questions[PROBE_QUESTIONS] = {
		{.words = {"INFO"}},
		{.words = {"CONFIG", "GET", "appendfsync"}},
		{.words = {"CONFIG", "GET", "save"}},
		{.words = {"CONFIG", "GET", "min-replicas-to-write"}},
	};
	struct failure failure;
	const char *error;

	if (!probe_ask(probe, "reach", questions, PROBE_QUESTIONS, probe->info)) {
		memset(probe->info, 0, sizeof(probe->info));
		return false;
	}
	error = reply_error(probe->info[0]);
	if (!error || probe_is_refusal(error))
		return true;
	error_reply_read(error, probe->server->text, &failure);
	return probe_fail(probe, "reach", &failure);
}

static bool is_silent(const struct probe *probe)
{
	for (size_t i = 1; i < PROBE_QUESTIONS; i++)
		if (reply_count(probe->info[i]) > 0)
			return false;
	return !reply_text(probe->info[0]);
}

bool settings_check(struct probe *probe)
{
	bool master;

	if (!learn(probe))
		return false;
	if (is_silent(probe)) {
		DOUBT("info", "let the user call INFO",
			"the server says nothing of itself: INFO is refused");
		return true;
	}
	judge_version(probe);
	master = judge_role(probe);
	judge_persistence(probe);
	judge_uptime(probe);
	judge_memory(probe);
	judge_replicas(probe);
	return master;
}
