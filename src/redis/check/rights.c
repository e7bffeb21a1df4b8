/* May this user do all that a lock takes? Found by trying, since ACL DRYRUN (Redis 7) takes a right
 * of its own. All is tried on one string: what is allowed answers WRONGTYPE there and changes
 * nothing, what is not answers NOPERM. */
#include "redis/check/probe.h"

#include <bsd/string.h>
#include <stdio.h>
#include <string.h>

#include "redis/keys.h"
#include "redis/link/error_reply.h"

#define NAME      ""  /* stands for the key */
#define LIST_SIZE 400 /* the missing rights, as text */

enum need { ALWAYS, TO_SETTLE, TO_SHOW };

/* set comes first, del last. tests/server/check.bats holds it against the scripts. */
static const struct right {
	const char *words[8];
	enum need need;
} rights[] = {
	{{"set", NAME, "probe", "PX", "10000"}, ALWAYS},
	{{"get", NAME}, ALWAYS},
	{{"mget", NAME}, ALWAYS},
	{{"exists", NAME}, ALWAYS},
	{{"pttl", NAME}, ALWAYS},
	{{"pexpire", NAME, "10000"}, ALWAYS},
	{{"pexpireat", NAME, "4000000000000"}, ALWAYS},
	{{"hset", NAME, "field", "1"}, ALWAYS},
	{{"hmget", NAME, "field"}, ALWAYS},
	{{"rpush", NAME, "word"}, ALWAYS},
	{{"lindex", NAME, "0"}, ALWAYS},
	{{"blpop", NAME, "1"}, ALWAYS},
	{{"zadd", NAME, "1", "word"}, ALWAYS},
	{{"zcard", NAME}, ALWAYS},
	{{"zrange", NAME, "0", "0"}, ALWAYS},
	{{"zrangebyscore", NAME, "0", "1"}, ALWAYS},
	{{"zrank", NAME, "word"}, ALWAYS},
	{{"zrem", NAME, "word"}, ALWAYS},
	{{"zremrangebyscore", NAME, "0", "1"}, ALWAYS},
	{{"zrevrange", NAME, "0", "0"}, ALWAYS},
	{{"zscore", NAME, "word"}, ALWAYS},
	{{"time"}, ALWAYS},
	{{"eval", "return 1", "0"}, ALWAYS},
	{{"evalsha", "0000000000000000000000000000000000000000", "0"}, ALWAYS},
	{{"info", "server"}, TO_SETTLE},
	{{"scan", "0", "COUNT", "1"}, TO_SHOW},
	{{"del", NAME}, ALWAYS},
};

enum { COUNT = sizeof(rights) / sizeof(rights[0]) };

struct missing {
	char always[LIST_SIZE], to_show[LIST_SIZE]; /* " +set +get" */
	bool keys;                                  /* the keys are refused, not the commands */
};

static bool refuses_keys(const char *error)
{
	return strncmp(error, "NOPERM", 6) == 0 && strstr(error, "key") && !strstr(error, "to run");
}

static void note(struct missing *missing, const struct probe *probe, const struct right *right,
	const char *error)
{
	bool settles = right->need == TO_SETTLE && probe->request->settle_ms > 0 &&
		       probe->request->settle_asked;
	char *list = right->need == ALWAYS || settles ? missing->always : missing->to_show;

	if (refuses_keys(error)) {
		missing->keys = true;
	} else if (probe_is_refusal(error)) {
		strlcat(list, " +", LIST_SIZE);
		strlcat(list, right->words[0], LIST_SIZE);
	}
}

static const char *user(const struct probe *probe)
{
	return probe->server->user ? probe->server->user : "default";
}

static void judge(struct probe *probe, const struct missing *missing)
{
	char advice[LIST_SIZE + 200];

	snprintf(advice, sizeof(advice), "ACL SETUSER %s%s", user(probe),
		*missing->always ? missing->always : missing->to_show);
	if (*missing->always) {
		probe_report(probe, "rights", LOCK_UNFIT, EXIT_REFUSED, advice,
			"user %s may not run all that a lock takes", user(probe));
	} else if (missing->keys) {
		snprintf(advice, sizeof(advice), "ACL SETUSER %s ~%s*", user(probe),
			probe->request->prefix);
		probe_report(probe, "rights", LOCK_UNFIT, EXIT_REFUSED, advice,
			"user %s may not use the keys that begin with '%s'", user(probe),
			probe->request->prefix);
	} else if (*missing->to_show) {
		DOUBT("rights", advice,
			"user %s may do all that a lock takes, but not all of dlock status, check "
			"and --settle",
			user(probe));
	} else {
		FIT("rights", "user %s may do all that a lock takes", user(probe));
	}
}

/* So many of them, in one write. False: the server cannot be asked, which was told. */
static bool try(
	struct probe *probe, const struct right *tried, size_t count, struct missing *missing)
{
	struct probe_command commands[COUNT];
	struct reply *replies[COUNT];
	struct failure failure = {0};

	for (size_t i = 0; i < count; i++) {
		memcpy(&commands[i], tried[i].words, sizeof(commands[i]));
		for (size_t word = 0; commands[i].words[word]; word++)
			if (*commands[i].words[word] == '\0')
				commands[i].words[word] = probe->keys.lock;
	}
	if (!probe_ask(probe, "rights", commands, count, replies))
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *error = reply_error(replies[i]);

		if (error)
			note(missing, probe, &tried[i], error);
		/* Not for want of a right: out of memory, a slot of another node... */
		if (error && tried == rights && !refuses_keys(error) && !probe_is_refusal(error))
			error_reply_read(error, probe->server->text, &failure);
		reply_free(replies[i]);
	}
	return failure.code == EXIT_DONE || probe_fail(probe, "rights", &failure);
}

/* Only with a string in its place the other commands are harmless. */
bool rights_check(struct probe *probe)
{
	struct missing missing = {0};

	if (!try(probe, rights, 1, &missing))
		return false;
	if (!*missing.always && !missing.keys && !try(probe, rights + 1, COUNT - 1, &missing))
		return false;
	judge(probe, &missing);
	return !*missing.always && !missing.keys;
}
