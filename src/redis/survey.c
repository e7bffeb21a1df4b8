/* Looking at locks: for `dlock status`. Changes nothing in the server. */
#include "redis/single.h"

#include <bsd/stdlib.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "name.h"
#include "redis/command.h"
#include "redis/connection.h"
#include "redis/fault.h"
#include "redis/nodes.h"

#define SCAN_COUNT "1000"

struct found {
	char *name;              /* owned */
	struct session *session; /* borrowed; where it was found */
};

struct survey {
	struct session own;    /* with the URL's server */
	struct session *nodes; /* owned; with a Cluster's masters */
	size_t node_count;
	struct session *session; /* borrowed; the one in use */
	const char *prefix;
	char *const *patterns;
	size_t pattern_count;
	bool idle_too;
	struct patience patience;
	struct failure *failure;
	struct found *names; /* owned */
	size_t name_count, name_size;
};

static bool fail_memory(struct survey *survey)
{
	return failure_set(survey->failure, EXIT_SYSTEM, "out of memory");
}

static bool fail_nonsense(struct survey *survey)
{
	return failure_set(survey->failure, EXIT_PROTOCOL,
		"%s gave an answer that makes no sense here", session_peer(survey->session));
}

/* Out of patience is a failure here as well. */
static bool done(struct survey *survey, enum wire wire)
{
	if (wire == WIRE_CANCELLED)
		failure_set(survey->failure, EXIT_UNREACHABLE, "interrupted");
	return wire == WIRE_OK;
}

/* --- Which locks there are ------------------------------------------------------------------ */

static bool is_glob(const char *pattern)
{
	return strpbrk(pattern, "*?[") != NULL;
}

static bool is_wanted(const struct survey *survey, const char *name)
{
	for (size_t i = 0; i < survey->pattern_count; i++) {
		const char *pattern = survey->patterns[i];

		/* A backslash in a NAME is one. */
		if (is_glob(pattern) ? fnmatch(pattern, name, 0) == 0 : strcmp(pattern, name) == 0)
			return true;
	}
	return survey->pattern_count == 0;
}

static bool keep_name(struct survey *survey, const char *name, size_t length)
{
	if (survey->name_count == survey->name_size) {
		size_t size = survey->name_size == 0 ? 64 : 2 * survey->name_size;
		struct found *names = reallocarray(survey->names, size, sizeof(*names));

		if (!names)
			return fail_memory(survey);
		survey->names = names;
		survey->name_size = size;
	}
	survey->names[survey->name_count] = (struct found){strndup(name, length), survey->session};
	return survey->names[survey->name_count++].name != NULL || fail_memory(survey);
}

/* A lock is found by its key, by its queue where it is free or about to be, and by what the server
 * remembers of it. */
static bool heed_key(struct survey *survey, const char *key)
{
	size_t prefix_length = strlen(survey->prefix);
	size_t length;
	const char *name = keys_lock_name(key, "queue", survey->prefix, &length);

	if (!name && survey->idle_too)
		name = keys_lock_name(key, "meta", survey->prefix, &length);
	if (!name) {
		/* A server that was asked for this prefix may answer anything. */
		if (strncmp(key, survey->prefix, prefix_length) != 0)
			return true;
		name = key + prefix_length;
		length = strlen(name);
		if (length == 0 || name_is_companion(name))
			return true;
	}
	return keep_name(survey, name, length);
}

static bool request(
	struct survey *survey, struct reply **reply, size_t count, const char *const *words)
{
	enum wire wire = command_call(survey->session->connection, reply, count, words,
		survey->patience, survey->failure);

	if (!done(survey, wire))
		return false;
	if (!reply_error(*reply))
		return true;
	fault_read(reply_error(*reply), session_peer(survey->session), survey->failure);
	reply_free(*reply);
	return false;
}

/* Companions share the prefix, so nothing more narrow is asked for: one pass finds all. */
static bool scan(struct survey *survey, const char *pattern)
{
	char cursor[24] = "0";
	const char *words[] = {"SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT};
	struct reply *reply;
	bool good = true;

	do {
		if (!request(survey, &reply, 6, words))
			return false;
		const char *next = reply_text(reply_at(reply, 0));
		const struct reply *keys = reply_at(reply, 1);

		good = next != NULL || fail_nonsense(survey);
		snprintf(cursor, sizeof(cursor), "%s", next ? next : "0");
		for (size_t i = 0; good && i < reply_count(keys); i++) {
			const char *key = reply_text(reply_at(keys, i));

			good = !key || heed_key(survey, key);
		}
		reply_free(reply);
	} while (good && strcmp(cursor, "0") != 0);
	return good;
}

/* One that cannot be reached must not be taken for one that has no locks. */
static bool scan_node(struct survey *survey, const struct place *place, const char *pattern)
{
	struct session *session = &survey->nodes[survey->node_count++];

	*session = (struct session){.server = survey->own.server, .route.home = *place};
	survey->session = session;
	return done(survey, session_open(session, survey->patience, survey->failure)) &&
	       session->route.home.host[0] != '\0' && scan(survey, pattern);
}

/* A Cluster has no SCAN of all. */
static bool scan_all(struct survey *survey, const char *pattern)
{
	struct place *places;
	size_t count;
	bool good = done(survey, nodes_find(survey->session, survey->prefix, &places, &count,
					 survey->patience, survey->failure));

	if (!good || count == 0)
		return good && scan(survey, pattern);
	survey->nodes = calloc(count, sizeof(*survey->nodes));
	if (!survey->nodes) {
		free(places);
		return fail_memory(survey);
	}
	for (size_t i = 0; good && i < count; i++)
		good = scan_node(survey, &places[i], pattern);
	survey->session = &survey->own;
	free(places);
	return good;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct found *)a)->name, ((const struct found *)b)->name);
}

static bool find_names(struct survey *survey)
{
	bool scans = survey->pattern_count == 0;
	char *pattern;
	bool good = true;

	for (size_t i = 0; i < survey->pattern_count; i++)
		scans = scans || is_glob(survey->patterns[i]);
	if (scans) {
		pattern = keys_pattern(survey->prefix);
		good = pattern ? scan_all(survey, pattern) : fail_memory(survey);
		free(pattern);
	}
	for (size_t i = 0; good && i < survey->pattern_count; i++) {
		if (!is_glob(survey->patterns[i]))
			good = keep_name(survey, survey->patterns[i], strlen(survey->patterns[i]));
	}
	if (good && survey->name_count > 0)
		qsort(survey->names, survey->name_count, sizeof(*survey->names), compare_names);
	return good;
}

/* --- One lock ------------------------------------------------------------------------------- */

struct parties {
	struct lock_view_party *list; /* owned */
	size_t count;
};

static bool parties_make(struct parties *parties, size_t most)
{
	*parties = (struct parties){.list = calloc(most + 1, sizeof(*parties->list))};
	return parties->list != NULL;
}

static void parties_add(
	struct parties *parties, const struct record *record, int64_t now_us, int64_t ttl_ms)
{
	parties->list[parties->count++] = (struct lock_view_party){
		.party = record->party,
		.mode = record->mode,
		.priority = record->priority,
		/* Handed over, and not claimed yet: it has held for no time at all. */
		.ms = ttl_ms >= 0 && !record->claimed ? 0 : (now_us - record->moment) / 1000,
		.ttl_ms = ttl_ms,
		.since_us = record->claimed ? record->moment : now_us,
		.detached = record->detached,
	};
}

static void read_holders(struct parties *holders, const struct reply *list, int64_t now_us)
{
	for (size_t i = 0; i + 1 < reply_count(list); i += 2) {
		struct record record;

		if (!record_read(&record, reply_text(reply_at(list, i + 1))))
			record = (struct record){.claimed = true, .moment = now_us};
		parties_add(holders, &record, now_us,
			reply_within(reply_at(list, i), -1, SINGLE_MS_MOST));
	}
}

static void read_waiters(struct parties *waiters, const struct reply *list, int64_t now_us)
{
	for (size_t i = 0; i < reply_count(list); i++) {
		struct record record;

		if (record_read(&record, reply_text(reply_at(list, i))))
			parties_add(waiters, &record, now_us, -1);
	}
}

static enum lock_mode read_mode(const char *kind)
{
	if (kind && strcmp(kind, "shared") == 0)
		return LOCK_SHARED;
	return kind && strcmp(kind, "permits") == 0 ? LOCK_PERMITS : LOCK_EXCLUSIVE;
}

static struct lock_counters read_counters(const struct reply *list)
{
	return (struct lock_counters){
		.acquisitions = reply_integer(reply_at(list, 0)),
		.contentions = reply_integer(reply_at(list, 1)),
		.timeouts = reply_integer(reply_at(list, 2)),
		.losses = reply_integer(reply_at(list, 3)),
		.waited_us = reply_integer(reply_at(list, 4)),
		.held_us = reply_integer(reply_at(list, 5)),
	};
}

static bool show_reply(struct survey *survey, const struct keys *keys, const char *name,
	const struct reply *reply, void (*show)(const struct lock_view *view, void *context),
	void *context)
{
	int64_t now_us = reply_within(reply_at(reply, 0), 0, SINGLE_US_MOST);
	const char *kind = reply_text(reply_at(reply, 1));
	struct parties holders, waiters = {0};
	struct lock_view view = {
		.name = name,
		.key = keys->lock,
		.mode = read_mode(kind),
		.foreign = kind && strcmp(kind, "foreign") == 0,
		.ttl_ms = reply_within(reply_at(reply, 2), -1, SINGLE_MS_MOST),
		.fence = (uint64_t)reply_integer(reply_at(reply, 3)),
	};
	bool good;

	if (!kind)
		return fail_nonsense(survey);
	good = parties_make(&holders, reply_count(reply_at(reply, 4)) / 2) &&
	       parties_make(&waiters, reply_count(reply_at(reply, 5)));
	if (good) {
		read_holders(&holders, reply_at(reply, 4), now_us);
		read_waiters(&waiters, reply_at(reply, 5), now_us);
		view.holders = holders.list;
		view.holder_count = holders.count;
		view.waiters = waiters.list;
		view.waiter_count = waiters.count;
		view.counters = read_counters(reply_at(reply, 6));
		if (waiters.count > 0 || strcmp(kind, "free") != 0 || survey->idle_too)
			show(&view, context);
	}
	free(holders.list);
	free(waiters.list);
	return good || fail_memory(survey);
}

/* What is no lock is passed over, unless it was asked for by its name. */
static bool heed_failure(const struct survey *survey, const char *name)
{
	if (survey->failure->code != EXIT_PROTOCOL)
		return false;
	for (size_t i = 0; i < survey->pattern_count; i++) {
		if (strcmp(survey->patterns[i], name) == 0)
			return false;
	}
	return true;
}

static bool show_lock(struct survey *survey, const char *name,
	void (*show)(const struct lock_view *view, void *context), void *context)
{
	struct keys keys;
	struct reply *reply;
	struct call call;
	enum wire wire;
	bool good;

	if (!keys_make(&keys, survey->prefix, name, ""))
		return fail_memory(survey);
	survey->session->key = keys.lock;
	call_begin(&call, &script_inspect, &keys, "");
	wire = session_call(survey->session, &call, &reply, survey->patience, survey->failure);
	if (wire == WIRE_OK) {
		good = show_reply(survey, &keys, name, reply, show, context);
		reply_free(reply);
	} else {
		good = wire == WIRE_FAILED && heed_failure(survey, name);
		done(survey, wire);
	}
	keys_free(&keys);
	return good;
}

static void free_names(struct survey *survey)
{
	for (size_t i = 0; i < survey->name_count; i++)
		free(survey->names[i].name);
	free(survey->names);
	survey->names = NULL;
	survey->name_count = survey->name_size = 0;
}

/* The nodes' among them: a Cluster may have others at the next look. */
static void close_nodes(struct survey *survey)
{
	for (size_t i = 0; i < survey->node_count; i++)
		session_close(&survey->nodes[i]);
	free(survey->nodes);
	survey->nodes = NULL;
	survey->node_count = 0;
}

static void close_sessions(struct survey *survey)
{
	session_close(&survey->own);
	close_nodes(survey);
}

/* Over the connection that there is, if there is one. */
static bool look(struct survey *survey, void (*show)(const struct lock_view *view, void *context),
	void *context, struct patience patience, struct failure *failure)
{
	bool good;

	survey->patience = patience;
	survey->failure = failure;
	survey->session = &survey->own;
	close_nodes(survey);
	good = done(survey, session_open(survey->session, patience, failure)) && find_names(survey);
	for (size_t i = 0; good && i < survey->name_count; i++) {
		const char *name = survey->names[i].name;

		survey->session = survey->names[i].session;
		if (is_wanted(survey, name) &&
			(i == 0 || strcmp(name, survey->names[i - 1].name) != 0))
			good = show_lock(survey, name, show, context);
	}
	free_names(survey);
	return good;
}

bool single_survey(const struct server *server, const char *prefix, char *const *patterns,
	size_t pattern_count, bool idle_too,
	void (*show)(const struct lock_view *view, void *context), void *context,
	struct patience patience, struct failure *failure)
{
	struct survey survey = {
		.own = {.server = server},
		.prefix = prefix,
		.patterns = patterns,
		.pattern_count = pattern_count,
		.idle_too = idle_too,
	};
	bool good = look(&survey, show, context, patience, failure);

	close_sessions(&survey);
	return good;
}

void *single_look_open(const struct server *server, const char *prefix, char *const *patterns,
	size_t pattern_count, struct failure *failure)
{
	struct survey *survey = malloc(sizeof(*survey));

	if (!survey) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	*survey = (struct survey){
		.own = {.server = server},
		.prefix = prefix,
		.patterns = patterns,
		.pattern_count = pattern_count,
	};
	return survey;
}

bool single_look(void *state, void (*show)(const struct lock_view *view, void *context),
	void *context, struct patience patience, struct failure *failure)
{
	struct survey *survey = state;
	bool good = look(survey, show, context, patience, failure);

	/* What is still to come would be taken for the answer to the next question. */
	if (!good)
		session_drop(&survey->own);
	return good;
}

void single_look_close(void *state)
{
	struct survey *survey = state;

	close_sessions(survey);
	free(survey);
}
