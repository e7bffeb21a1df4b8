/* May this user do all that a lock takes? Found by trying, since ACL DRYRUN (Redis 7) takes a right
 * of its own. All is tried on one string: what is allowed answers WRONGTYPE there and changes
 * nothing, what is not answers NOPERM. */
#include "redis/check/probe.h"

#include <bsd/string.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "net/server.h"
#include "redis/keys.h"
#include "redis/link/error_reply.h"

#define NAME      "" /* stands for the key */
#define MOST      40
#define LIST_SIZE 400 /* the missing rights, as text */

enum need { ALWAYS, TO_SETTLE, TO_SHOW };

/* SET comes first, DEL last. tests/server/check.bats holds it against the scripts. */
static const struct right {
	const char *words[8];
	enum need need;
} rights[] = {
	{{"SET", NAME, "probe", "PX", "10000"}, ALWAYS},
	{{"GET", NAME}, ALWAYS},
	{{"MGET", NAME}, ALWAYS},
	{{"EXISTS", NAME}, ALWAYS},
	{{"PTTL", NAME}, ALWAYS},
	{{"PEXPIRE", NAME, "10000"}, ALWAYS},
	{{"PEXPIREAT", NAME, "4000000000000"}, ALWAYS},
	{{"HSET", NAME, "field", "1"}, ALWAYS},
	{{"HMGET", NAME, "field"}, ALWAYS},
	{{"RPUSH", NAME, "word"}, ALWAYS},
	{{"LINDEX", NAME, "0"}, ALWAYS},
	{{"BLPOP", NAME, "1"}, ALWAYS},
	{{"ZADD", NAME, "1", "word"}, ALWAYS},
	{{"ZCARD", NAME}, ALWAYS},
	{{"ZRANGE", NAME, "0", "0"}, ALWAYS},
	{{"ZRANGEBYSCORE", NAME, "0", "1"}, ALWAYS},
	{{"ZRANK", NAME, "word"}, ALWAYS},
	{{"ZREM", NAME, "word"}, ALWAYS},
	{{"ZREMRANGEBYSCORE", NAME, "0", "1"}, ALWAYS},
	{{"ZREVRANGE", NAME, "0", "0"}, ALWAYS},
	{{"ZSCORE", NAME, "word"}, ALWAYS},
	{{"TIME"}, ALWAYS},
	{{"EVAL", "return 1", "0"}, ALWAYS},
	{{"EVALSHA", "0000000000000000000000000000000000000000", "0"}, ALWAYS},
	{{"INFO", "server"}, TO_SETTLE},
	{{"SCAN", "0", "COUNT", "1"}, TO_SHOW},
	{{"DEL", NAME}, ALWAYS},
};

enum { COUNT = sizeof(rights) / sizeof(rights[0]) };
_Static_assert(COUNT <= MOST, "more rights than MOST");

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
	size_t length;

	if (refuses_keys(error)) {
		missing->keys = true;
	} else if (probe_is_refusal(error)) {
		strlcat(list, " +", LIST_SIZE);
		length = strlen(list);
		strlcat(list, right->words[0], LIST_SIZE);
		for (; list[length] != '\0'; length++)
			list[length] = (char)tolower((unsigned char)list[length]);
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

static void fill(struct probe_command commands[static COUNT], const char *key)
{
	for (size_t i = 0; i < COUNT; i++) {
		memcpy(&commands[i], rights[i].words, sizeof(commands[i]));
		for (size_t word = 0; word < 8 && commands[i].words[word]; word++)
			if (*commands[i].words[word] == '\0')
				commands[i].words[word] = key;
	}
}

/* Only with a string in its place the other commands are harmless. */
static bool try_all(
	struct probe *probe, const char *key, struct missing *missing, struct failure *failure)
{
	struct probe_command commands[COUNT];
	struct reply *replies[COUNT];
	const char *error;
	size_t count = 1;

	fill(commands, key);
	for (size_t from = 0; from < COUNT; from += count, count = COUNT - 1) {
		if (!probe_ask(probe, commands + from, count, replies, failure))
			return false;
		error = reply_error(replies[0]);
		/* Not for want of a right: out of memory, a slot of another node... */
		if (from == 0 && error && !refuses_keys(error) && !probe_is_refusal(error)) {
			error_reply_read(error, probe->server->text, failure);
			reply_free(replies[0]);
			return false;
		}
		for (size_t i = 0; i < count; i++) {
			if (reply_error(replies[i]))
				note(missing, probe, &rights[from + i], reply_error(replies[i]));
			reply_free(replies[i]);
		}
		if (from == 0 && (*missing->always || missing->keys))
			return true;
	}
	return true;
}

bool rights_check(struct probe *probe)
{
	struct missing missing = {0};
	struct failure failure;
	struct keys keys;
	char name[40];
	bool done;

	if (!probe_name_keys(probe, name, &keys))
		return false;
	done = try_all(probe, keys.lock, &missing, &failure);
	keys_free(&keys);
	if (done)
		judge(probe, &missing);
	else
		probe_report(probe, "rights", LOCK_UNFIT, failure.code, NULL, "%s", failure.text);
	return done && !*missing.always && !missing.keys;
}
