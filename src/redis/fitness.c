#include "redis/fitness.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "redis/connection.h"
#include "redis/keys.h"
#include "server.h"

#define TEXT_SIZE     700
#define NAMES_AT_ONCE 200

/* --- One server ------------------------------------------------------------------------------ */

/* Where the finding has no other. */
static const char *usual_advice(enum exit_code code)
{
	switch (code) {
	case EXIT_REFUSED:
		return "the right user, password or certificate";
	case EXIT_PROTOCOL:
		return "the URL of a Redis or Valkey server";
	case EXIT_SYSTEM:
		return "more memory or descriptors for dlock (ulimit)";
	default:
		return "see that it runs, can be reached from here, and takes writes";
	}
}

void visit_tell(struct visit *visit, const char *subject, enum lock_verdict verdict,
	enum exit_code code, const char *advice, const char *found, ...)
{
	char text[TEXT_SIZE];
	struct lock_finding finding = {
		visit->server->text, subject, verdict, EXIT_DONE, text, advice};
	va_list arguments;

	va_start(arguments, found);
	vsnprintf(text, sizeof(text), found, arguments);
	va_end(arguments);
	if (verdict == LOCK_UNFIT && visit->code == EXIT_DONE)
		visit->code = code;
	if (verdict == LOCK_UNFIT && !advice)
		finding.advice = usual_advice(code);
	if (verdict != LOCK_FIT)
		finding.code = verdict == LOCK_UNFIT && !visit->is_one_of_many ? code : EXIT_BUSY;
	visit->take(&finding, visit->context);
}

static enum wire read_replies(struct visit *visit, size_t count, struct reply **replies,
	struct patience patience, struct failure *failure)
{
	for (size_t i = 0; i < count; i++) {
		enum wire wire =
			connection_read(visit->session.connection, &replies[i], patience, failure);

		if (wire == WIRE_OK)
			continue;
		while (i > 0)
			reply_free(replies[--i]);
		return wire;
	}
	return WIRE_OK;
}

static bool append(struct visit *visit, const struct command *commands, size_t count)
{
	bool good = true;

	for (size_t i = 0; good && i < count; i++) {
		size_t lengths[8], words = 0;

		for (; words < 8 && commands[i].words[words]; words++)
			lengths[words] = strlen(commands[i].words[words]);
		good = connection_append(
			visit->session.connection, words, commands[i].words, lengths);
	}
	return good;
}

bool visit_ask(struct visit *visit, const struct command *commands, size_t count,
	struct reply **replies, struct failure *failure)
{
	struct patience patience = {clock_after(clock_now(), VISIT_PATIENCE), -1};
	enum wire wire;

	failure->code = EXIT_DONE;
	wire = session_open(&visit->session, patience, failure);
	if (wire == WIRE_OK && !append(visit, commands, count))
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	if (wire == WIRE_OK)
		wire = connection_flush(visit->session.connection, patience, failure);
	if (wire == WIRE_OK)
		wire = read_replies(visit, count, replies, patience, failure);
	if (wire == WIRE_OK)
		return true;
	session_drop(&visit->session);
	return failure->code != EXIT_DONE ? false
					  : failure_set(failure, EXIT_UNREACHABLE,
						    "%s does not answer", visit->server->text);
}

static void write_name(char name[static 40], uint64_t number)
{
	snprintf(name, 40, "dlock-check-%016" PRIx64, number);
}

/* How many of the names from this number on there are before one that this node has; count: it has
 * none of them. */
static size_t find_own(struct visit *visit, uint64_t number, size_t count)
{
	char *keys[NAMES_AT_ONCE], name[40];
	struct command asks[NAMES_AT_ONCE];
	struct reply *replies[NAMES_AT_ONCE] = {0};
	struct failure unheard;
	size_t made = 0, own = count;
	bool asked;

	for (; made < count; made++) {
		write_name(name, number + made);
		if (asprintf(&keys[made], "%s%s", visit->request->prefix, name) < 0)
			break;
		asks[made] = (struct command){.words = {"GET", keys[made]}};
	}
	asked = visit_ask(visit, asks, made, replies, &unheard);
	for (size_t i = made; i-- > 0;) {
		const char *error = asked ? reply_error(replies[i]) : NULL;

		if (!error || strncmp(error, "MOVED ", 6) != 0)
			own = i;
		if (asked)
			reply_free(replies[i]);
		free(keys[i]);
	}
	return own;
}

/* In a Cluster other nodes have most of the keys, so one that this node has is looked for: in about
 * as many round trips as redirects are followed. */
bool visit_name_keys(struct visit *visit, char name[static 40], struct keys *keys)
{
	uint64_t number = 0;
	size_t count = 1, own = 1;

	for (int round = 0; round <= REDIRECTS_MOST && own == count; round++) {
		count = round == 0 ? 1 : NAMES_AT_ONCE;
		if (getrandom(&number, sizeof(number), 0) < 0)
			number = (uint64_t)clock_now();
		own = find_own(visit, number, count);
	}
	write_name(name, number + own);
	return keys_make(keys, visit->request->prefix, name, "");
}

static void look_at(struct visit *visit)
{
	if (fitness_facts(visit) && fitness_time(visit) && fitness_rights(visit))
		fitness_trial(visit);
	session_close(&visit->session);
}

/* --- Several --------------------------------------------------------------------------------- */

/* A server of a list as one of its own. */
static bool pick(struct server *one, const struct server *all, size_t index)
{
	struct endpoint *endpoint = &all->endpoints[index];
	bool path = endpoint->host[0] == '/';
	bool bracket = !path && strchr(endpoint->host, ':') != NULL;
	int written;

	*one = *all;
	one->scheme = path ? SERVER_UNIX : SERVER_REDIS;
	one->endpoints = endpoint;
	one->endpoint_count = 1;
	if (path)
		written = asprintf(&one->text, "unix://%s", endpoint->host);
	else
		written = asprintf(&one->text, "%s://%s%s%s:%d", all->tls ? "rediss" : "redis",
			bracket ? "[" : "", endpoint->host, bracket ? "]" : "", endpoint->port);
	return written >= 0;
}

/* Tells of all of them together. */
static void tell_all(struct visit *whole, const char *subject, enum lock_verdict verdict,
	const char *advice, const char *one, const char *between, const char *other)
{
	visit_tell(
		whole, subject, verdict, EXIT_UNREACHABLE, advice, "%s %s %s", one, between, other);
}

static bool is_same(const struct visit *one, const struct visit *other, const char *key)
{
	char a[FACT_SIZE], b[FACT_SIZE];

	return facts_find(&one->facts, key, a) && facts_find(&other->facts, key, b) &&
	       strcmp(a, b) == 0;
}

static bool is_same_host(const struct visit *one, const struct visit *other)
{
	const char *a = one->server->endpoints[0].host, *b = other->server->endpoints[0].host;

	return (*a == '/' && *b == '/') || strcmp(a, b) == 0;
}

static bool clocks_differ(const struct visit *one, const struct visit *other)
{
	return one->timed && other->timed && llabs(one->ahead_us - other->ahead_us) > VISIT_CLOCKS;
}

/* False: something was said. */
static bool compare(struct visit *whole, const struct visit *one, const struct visit *other)
{
	const char *a = one->server->text, *b = other->server->text;
	bool good = true;

	if (is_same(one, other, "run_id")) {
		tell_all(whole, "independence", LOCK_UNFIT, "name each server once", a, "and", b);
		return false;
	}
	if (is_same(one, other, "master_replid")) {
		tell_all(whole, "independence", LOCK_UNFIT,
			"servers that do not replicate each other", a, "has the data of", b);
		return false;
	}
	if (is_same_host(one, other)) {
		tell_all(whole, "independence", LOCK_DOUBTFUL, "a host for each", a,
			"fails with the host of", b);
		good = false;
	}
	if (clocks_differ(one, other)) {
		tell_all(whole, "clocks", LOCK_DOUBTFUL, "keep all clocks right (NTP)", a,
			"has not the time of", b);
		good = false;
	}
	return good;
}

static void judge_majority(struct visit *whole, const struct visit *visits, size_t count)
{
	size_t fit = 0;
	enum exit_code code = EXIT_DONE;

	for (size_t i = 0; i < count; i++) {
		if (visits[i].code == EXIT_DONE)
			fit++;
		else if (code == EXIT_DONE)
			code = visits[i].code;
	}
	if (fit <= count / 2)
		visit_tell(whole, "majority", LOCK_UNFIT, code, "mend those that failed",
			"%zu of %zu servers are fit: too few to take a lock", fit, count);
	else if (fit < count)
		visit_tell(whole, "majority", LOCK_DOUBTFUL, EXIT_DONE, NULL,
			"%zu of %zu servers are fit", fit, count);
	else if (count % 2 == 0)
		visit_tell(whole, "majority", LOCK_DOUBTFUL, EXIT_DONE, "an odd number of servers",
			"all %zu servers are fit, but no more may fail than of %zu", count,
			count - 1);
	else
		visit_tell(whole, "majority", LOCK_FIT, EXIT_DONE, NULL,
			"all %zu servers are fit, and %zu may fail", count, (count - 1) / 2);
}

static void judge_together(struct visit *whole, const struct visit *visits, size_t count)
{
	bool independent = true;

	judge_majority(whole, visits, count);
	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++)
			independent = compare(whole, &visits[i], &visits[j]) && independent;
	if (independent)
		visit_tell(whole, "independence", LOCK_FIT, EXIT_DONE, NULL,
			"different servers on different hosts, their clocks agree");
}

static bool look_at_each(struct visit *whole, struct server *servers, struct visit *visits)
{
	size_t count = whole->server->endpoint_count;
	size_t done = 0;

	for (; done < count && pick(&servers[done], whole->server, done); done++) {
		visits[done] = *whole;
		visits[done].server = visits[done].session.server = &servers[done];
		visits[done].is_one_of_many = true;
		look_at(&visits[done]);
	}
	if (done == count)
		judge_together(whole, visits, count);
	for (size_t i = 0; i < done; i++) {
		facts_free(&visits[i].facts);
		free(servers[i].text);
	}
	return done == count;
}

bool fitness_examine(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure)
{
	struct visit whole = {.server = server,
		.request = request,
		.take = take,
		.context = context,
		.session.server = server};
	struct server *servers;
	struct visit *visits;
	bool done;

	if (server->scheme != SERVER_QUORUM) {
		look_at(&whole);
		facts_free(&whole.facts);
		return true;
	}
	servers = calloc(server->endpoint_count, sizeof(*servers));
	visits = calloc(server->endpoint_count, sizeof(*visits));
	done = servers && visits && look_at_each(&whole, servers, visits);
	free(servers);
	free(visits);
	return done || failure_set(failure, EXIT_SYSTEM, "out of memory");
}
