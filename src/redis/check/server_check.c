#include "redis/check/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "lock/lock_check.h"
#include "lock/trial.h"
#include "net/server.h"
#include "redis/keys.h"
#include "redis/redis_service.h"
#include "redis/redis_url.h"
#include "redis/script/script.h"

/* Whatever was reached, nothing of it stays. */
static void delete_keys(struct probe *probe, const struct keys *keys)
{
	struct probe_command away = {
		.words = {"DEL", keys->lock, keys->meta, keys->holders, keys->queue}};
	struct failure unheard;
	struct reply *reply;

	if (probe_ask(probe, &away, 1, &reply, &unheard))
		reply_free(reply);
}

/* A server that forgets them is sent each script anew. */
static void judge_memory_for_scripts(struct probe *probe)
{
	struct probe_command again = {.words = {"EVALSHA", script_acquire.sha, "0"}};
	struct failure failure;
	struct reply *reply;
	const char *error;

	if (!probe_ask(probe, &again, 1, &reply, &failure)) {
		probe_report(probe, "scripts", LOCK_UNFIT, failure.code, NULL, "%s", failure.text);
		return;
	}
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
	struct keys keys;
	char name[40];
	bool done;

	if (!probe_name_keys(probe, name, &keys))
		return;
	done = trial_run(probe->server, probe->request, name, PROBE_LIMIT, &step, &failure);
	delete_keys(probe, &keys);
	keys_free(&keys);
	if (done)
		judge_memory_for_scripts(probe);
	else
		probe_report(probe, "scripts", LOCK_UNFIT, failure.code, NULL,
			"a lock could not be %s: %s", step, failure.text);
}

static void look_at(struct probe *probe)
{
	if (settings_check(probe) && latency_check(probe) && rights_check(probe))
		check_scripts(probe);
	link_close(&probe->link);
}

/* A server of a list as one of its own. */
static bool pick(struct server *one, const struct server *all, size_t index)
{
	struct endpoint *endpoint = &all->endpoints[index];
	char place[PLACE_TEXT];

	*one = *all;
	one->service = &redis_service;
	one->scheme = redis_scheme_of_one(all->tls);
	one->endpoints = endpoint;
	one->endpoint_count = 1;
	place_write(place, sizeof(place), endpoint->host, endpoint->port);
	return asprintf(&one->text, "%s://%s", all->tls ? "rediss" : "redis", place) >= 0;
}

static bool is_same(const struct probe *one, const struct probe *other, const char *key)
{
	char a[SERVER_INFO_SIZE], b[SERVER_INFO_SIZE];

	return server_info_find(&one->info, key, a) && server_info_find(&other->info, key, b) &&
	       strcmp(a, b) == 0;
}

static bool is_same_host(const struct probe *one, const struct probe *other)
{
	return strcmp(one->server->endpoints[0].host, other->server->endpoints[0].host) == 0;
}

static bool clocks_differ(const struct probe *one, const struct probe *other)
{
	return one->timed && other->timed && llabs(one->ahead_us - other->ahead_us) > PROBE_CLOCKS;
}

static void report_clocks(struct probe *whole, const struct probe *one, const struct probe *other)
{
	int64_t apart = one->ahead_us - other->ahead_us;
	char span[DURATION_TEXT];

	probe_report(whole, "clocks", LOCK_DOUBTFUL, EXIT_UNREACHABLE,
		"keep all clocks right (NTP)", "the clock of %s is %s %s that of %s",
		one->server->text, duration_format(llabs(apart) / 1000 * NANOS_PER_MS, span),
		apart < 0 ? "behind" : "ahead of", other->server->text);
}

/* False: something was said. */
static bool compare(struct probe *whole, const struct probe *one, const struct probe *other)
{
	const char *a = one->server->text, *b = other->server->text;
	bool good = true;

	if (is_same(one, other, "run_id")) {
		probe_report(whole, "independence", LOCK_UNFIT, EXIT_UNREACHABLE,
			"name each server once", "%s and %s", a, b);
		return false;
	}
	if (is_same(one, other, "master_replid")) {
		probe_report(whole, "independence", LOCK_UNFIT, EXIT_UNREACHABLE,
			"servers that do not replicate each other", "%s has the data of %s", a, b);
		return false;
	}
	if (is_same_host(one, other)) {
		probe_report(whole, "independence", LOCK_DOUBTFUL, EXIT_UNREACHABLE,
			"a host for each", "%s is on the same host as %s", a, b);
		good = false;
	}
	if (clocks_differ(one, other)) {
		report_clocks(whole, one, other);
		good = false;
	}
	return good;
}

static void judge_majority(struct probe *whole, const struct probe *visits, size_t count)
{
	size_t fit = 0;
	enum exit_code code = EXIT_DONE;

	for (size_t i = 0; i < count; i++)
		if (visits[i].code == EXIT_DONE)
			fit++;
		else if (code == EXIT_DONE)
			code = visits[i].code;
	if (fit <= count / 2)
		probe_report(whole, "majority", LOCK_UNFIT, code, "mend those that failed",
			"%zu of %zu servers are fit: too few to take a lock", fit, count);
	else if (fit < count)
		probe_report(whole, "majority", LOCK_DOUBTFUL, EXIT_DONE, NULL,
			"%zu of %zu servers are fit", fit, count);
	else if (count % 2 == 0)
		probe_report(whole, "majority", LOCK_DOUBTFUL, EXIT_DONE,
			"an odd number of servers",
			"all %zu servers are fit, but only %zu may fail, as of %zu", count,
			(count - 1) / 2, count - 1);
	else
		probe_report(whole, "majority", LOCK_FIT, EXIT_DONE, NULL,
			"all %zu servers are fit, and %zu may fail", count, (count - 1) / 2);
}

static void judge_together(struct probe *whole, const struct probe *visits, size_t count)
{
	bool independent = true;

	judge_majority(whole, visits, count);
	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++)
			independent = compare(whole, &visits[i], &visits[j]) && independent;
	if (independent)
		probe_report(whole, "independence", LOCK_FIT, EXIT_DONE, NULL,
			"different servers on different hosts, their clocks agree");
}

static bool look_at_each(struct probe *whole, struct server *servers, struct probe *visits)
{
	size_t count = whole->server->endpoint_count;
	size_t done = 0;

	for (; done < count && pick(&servers[done], whole->server, done); done++) {
		visits[done] = *whole;
		visits[done].server = visits[done].link.server = &servers[done];
		visits[done].is_one_of_many = true;
		look_at(&visits[done]);
	}
	if (done == count)
		judge_together(whole, visits, count);
	for (size_t i = 0; i < done; i++) {
		server_info_free(&visits[i].info);
		free(servers[i].text);
	}
	return done == count;
}

bool redis_check(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure)
{
	struct probe whole = {.server = server,
		.request = request,
		.take = take,
		.context = context,
		.link.server = server};
	struct server *servers;
	struct probe *visits;
	bool done;

	if (redis_form(server) != REDIS_QUORUM) {
		look_at(&whole);
		server_info_free(&whole.info);
		return true;
	}
	servers = calloc(server->endpoint_count, sizeof(*servers));
	visits = calloc(server->endpoint_count, sizeof(*visits));
	done = servers && visits && look_at_each(&whole, servers, visits);
	free(servers);
	free(visits);
	return done || failure_set(failure, EXIT_SYSTEM, "out of memory");
}
