#include "redis/check/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "lock/lock_check.h"
#include "redis/keys.h"
#include "redis/redis_service.h"
#include "redis/redis_url.h"
#include "redis/script/script.h"

/* Whatever was reached, nothing of it stays. */
static void delete_keys(struct probe *probe)
{
	const struct keys *keys = &probe->keys;
	struct probe_command away = {
		.words = {"DEL", keys->lock, keys->meta, keys->holders, keys->queue}};
	struct reply *reply;

	if (probe_ask(probe, NULL, &away, 1, &reply))
		reply_free(reply);
}

/* A server that forgets them is sent each script anew. */
static void judge_memory_for_scripts(struct probe *probe)
{
	struct probe_command again = {.words = {"EVALSHA", script_acquire.sha, "0"}};
	struct reply *reply;
	const char *error;

	if (!probe_ask(probe, "scripts", &again, 1, &reply))
		return;
	error = reply_error(reply);
	if (error && strncmp(error, "NOSCRIPT", 8) == 0)
		DOUBT("scripts", "talk to the server itself, without a proxy",
			"they work, but are not kept: each request sends them in full");
	else
		FIT("scripts", "a lock was taken, renewed, handed off and released");
	reply_free(reply);
}

/* Takes a lock for trial, so that each script runs, with the keys that it does not declare. */
static void check_scripts(struct probe *probe)
{
	struct failure failure;
	const char *step;
	bool done =
		trial_run(probe->server, probe->request, probe->name, PROBE_LIMIT, &step, &failure);

	delete_keys(probe);
	if (done)
		judge_memory_for_scripts(probe);
	else
		probe_report(probe, "scripts", LOCK_UNFIT, failure.code, NULL,
			"a lock could not be %s: %s", step, failure.text);
}

static void look_at(struct probe *probe)
{
	if (settings_check(probe) && latency_check(probe) && probe_name_keys(probe) &&
		rights_check(probe))
		check_scripts(probe);
	keys_free(&probe->keys);
	link_close(&probe->link);
}

static void forget(struct probe *probe)
{
	for (size_t i = 0; i < PROBE_QUESTIONS; i++)
		reply_free(probe->info[i]);
}

/* A server of a list as one of its own. */
static void pick(const struct probe *whole, size_t index, struct probe *one)
{
	char place[PLACE_TEXT];

	*one = *whole;
	redis_one_of(whole->server, index, &one->own, place);
	one->own.service = &redis_service;
	one->server = one->link.server = &one->own;
	one->is_one_of_many = true;
	snprintf(one->text, sizeof(one->text), "%s://%s", one->own.scheme->name, place);
	one->own.text = one->text;
}

static bool is_same(const struct probe *one, const struct probe *other, const char *key)
{
	char a[PROBE_VALUE], b[PROBE_VALUE];

	return probe_find(one, key, a) && probe_find(other, key, b) && strcmp(a, b) == 0;
}

/* False: something was said. */
static bool compare(struct probe *probe, const struct probe *one, const struct probe *other)
{
	const char *a = one->server->text, *b = other->server->text;
	int64_t apart = one->ahead_us - other->ahead_us;
	bool same_host =
		strcmp(one->server->endpoints[0].host, other->server->endpoints[0].host) == 0;
	bool clocks_differ = one->timed && other->timed && llabs(apart) > PROBE_CLOCKS;
	char span[DURATION_TEXT];

	if (is_same(one, other, "run_id")) {
		probe_report(probe, "independence", LOCK_UNFIT, EXIT_UNREACHABLE,
			"name each server once", "%s and %s", a, b);
		return false;
	}
	if (is_same(one, other, "master_replid")) {
		probe_report(probe, "independence", LOCK_UNFIT, EXIT_UNREACHABLE,
			"servers that do not replicate each other", "%s has the data of %s", a, b);
		return false;
	}
	if (same_host)
		DOUBT("independence", "a host for each", "%s is on the same host as %s", a, b);
	if (clocks_differ)
		DOUBT("clocks", "keep all clocks right (NTP)",
			"the clock of %s is %s %s that of %s", a,
			duration_format(llabs(apart) / 1000 * NANOS_PER_MS, span),
			apart < 0 ? "behind" : "ahead of", b);
	return !same_host && !clocks_differ;
}

static void judge_majority(struct probe *probe, const struct probe *visits, size_t count)
{
	size_t fit = 0;
	enum exit_code code = EXIT_DONE;

	for (size_t i = 0; i < count; i++)
		if (visits[i].code == EXIT_DONE)
			fit++;
		else if (code == EXIT_DONE)
			code = visits[i].code;
	if (fit <= count / 2)
		probe_report(probe, "majority", LOCK_UNFIT, code, "mend those that failed",
			"%zu of %zu servers are fit: too few to take a lock", fit, count);
	else if (fit < count)
		DOUBT("majority", NULL, "%zu of %zu servers are fit", fit, count);
	else if (count % 2 == 0)
		DOUBT("majority", "an odd number of servers",
			"all %zu servers are fit, but only %zu may fail, as of %zu", count,
			(count - 1) / 2, count - 1);
	else
		FIT("majority", "all %zu servers are fit, and %zu may fail", count,
			(count - 1) / 2);
}

static void judge_together(struct probe *probe, const struct probe *visits, size_t count)
{
	bool independent = true;

	judge_majority(probe, visits, count);
	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++)
			independent = compare(probe, &visits[i], &visits[j]) && independent;
	if (independent)
		FIT("independence", "different servers on different hosts, their clocks agree");
}

static bool look_at_each(struct probe *whole)
{
	size_t count = whole->server->endpoint_count;
	struct probe *visits = calloc(count, sizeof(*visits));

	for (size_t i = 0; visits && i < count; i++) {
		pick(whole, i, &visits[i]);
		look_at(&visits[i]);
	}
	if (!visits)
		return false;
	judge_together(whole, visits, count);
	for (size_t i = 0; i < count; i++)
		forget(&visits[i]);
	free(visits);
	return true;
}

bool redis_check(const struct server *server, const struct lock_request *request,
	lock_finding_taker *take, void *context, struct failure *failure)
{
	struct probe whole = {.server = server,
		.request = request,
		.take = take,
		.context = context,
		.link.server = server};

	if (redis_form(server) == REDIS_QUORUM)
		return look_at_each(&whole) || failure_set(failure, EXIT_SYSTEM, "out of memory");
	look_at(&whole);
	forget(&whole);
	return true;
}
