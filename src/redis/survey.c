/* Looking at locks: for `dlock status`. Changes nothing in the server. */
#include "redis/survey_own.h"

#include <stdlib.h>
#include <string.h>

#include "redis/connection.h"

bool survey_fail_memory(struct survey *survey)
{
	return failure_set(survey->failure, EXIT_SYSTEM, "out of memory");
}

bool survey_fail_nonsense(struct survey *survey)
{
	return failure_set(survey->failure, EXIT_PROTOCOL,
		"%s gave an answer that makes no sense here", session_peer(survey->session));
}

/* Out of patience is a failure here as well. */
bool survey_done(struct survey *survey, enum wire wire)
{
	if (wire == WIRE_CANCELLED)
		failure_set(survey->failure, EXIT_UNREACHABLE, "interrupted");
	return wire == WIRE_OK;
}

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
		.fence = (uint64_t)reply_within(reply_at(reply, 3), 0, SINGLE_US_MOST),
	};
	bool good;

	if (!kind)
		return survey_fail_nonsense(survey);
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
	return good || survey_fail_memory(survey);
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
		return survey_fail_memory(survey);
	survey->session->key = keys.lock;
	call_begin(&call, &script_inspect, &keys, "");
	wire = session_call(survey->session, &call, &reply, survey->patience, survey->failure);
	if (wire == WIRE_OK) {
		good = show_reply(survey, &keys, name, reply, show, context);
		reply_free(reply);
	} else {
		good = wire == WIRE_FAILED && heed_failure(survey, name);
		survey_done(survey, wire);
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
	good = survey_done(survey, session_open(survey->session, patience, failure)) &&
	       survey_find_names(survey);
	for (size_t i = 0; good && i < survey->name_count; i++) {
		const char *name = survey->names[i].name;

		survey->session = survey->names[i].session;
		if (survey_is_wanted(survey, name) &&
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
