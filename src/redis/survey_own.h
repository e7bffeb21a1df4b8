/* What survey.c, which shows locks, and survey_names.c, which finds out which there are, share. */
#ifndef DLOCK_REDIS_SURVEY_OWN_H
#define DLOCK_REDIS_SURVEY_OWN_H

#include "redis/single.h"

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
	nanos span; /* for each answer, as many as there may be */
	struct failure *failure;
	struct found *names; /* owned */
	size_t name_count, name_size;
};

/* Before each request: its answer may take as long as the first. */
void survey_wait_anew(struct survey *survey);

/* Set the survey's failure; false. */
bool survey_fail_memory(struct survey *survey);
bool survey_fail_nonsense(struct survey *survey);

/* Whether it went well; out of patience is a failure here as well. */
bool survey_done(struct survey *survey, enum wire wire);

/* Whether a NAME is among those asked for. */
bool survey_is_wanted(const struct survey *survey, const char *name);

/* Fills in survey->names, sorted, perhaps with some twice: by SCAN, of each node of a Cluster,
 * where a pattern or all are asked for; else those that are named. */
bool survey_find_names(struct survey *survey);

#endif
