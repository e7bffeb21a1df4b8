/* Which locks there are, in a server or in all nodes of a Cluster. */
#include "redis/survey_own.h"

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

static bool is_glob(const char *pattern)
{
	return strpbrk(pattern, "*?[") != NULL;
}

bool survey_is_wanted(const struct survey *survey, const char *name)
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
			return survey_fail_memory(survey);
		survey->names = names;
		survey->name_size = size;
	}
	survey->names[survey->name_count] = (struct found){strndup(name, length), survey->session};
	return survey->names[survey->name_count++].name != NULL || survey_fail_memory(survey);
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
	enum wire wire;

	survey_wait_anew(survey);
	wire = command_call(survey->session->connection, reply, count, words, survey->patience,
		survey->failure);
	if (!survey_done(survey, wire))
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

		good = next != NULL || survey_fail_nonsense(survey);
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
	survey_wait_anew(survey);
	return survey_done(survey, session_open(session, survey->patience, survey->failure)) &&
	       session->route.home.host[0] != '\0' && scan(survey, pattern);
}

/* A Cluster has no SCAN of all. */
static bool scan_all(struct survey *survey, const char *pattern)
{
	struct place *places;
	size_t count;
	bool good = survey_done(survey, nodes_find(survey->session, survey->prefix, &places, &count,
						survey->patience, survey->failure));

	if (!good || count == 0) {
		free(places);
		return good && scan(survey, pattern);
	}
	survey->nodes = calloc(count, sizeof(*survey->nodes));
	if (!survey->nodes) {
		free(places);
		return survey_fail_memory(survey);
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

bool survey_find_names(struct survey *survey)
{
	bool scans = survey->pattern_count == 0;
	char *pattern;
	bool good = true;

	for (size_t i = 0; i < survey->pattern_count; i++)
		scans = scans || is_glob(survey->patterns[i]);
	if (scans) {
		pattern = keys_pattern(survey->prefix);
		good = pattern ? scan_all(survey, pattern) : survey_fail_memory(survey);
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
