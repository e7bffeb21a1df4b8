/* The locks and the server, as `dlock status` and `dlock check` see them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/etcd_lock.h"
#include "net/server.h"

#define CHECK_LIMIT (3 * NANOS_PER_SEC)

/* A holder is shown with what its lease has left. */
static bool show_lock(
	struct lock_lister *lister, const json_t *kvs, const char *name, struct failure *failure)
{
	struct etcd_queue queue;
	bool good = etcd_queue_read(&queue, json_pack("{sO}", "kvs", kvs), kvs);

	for (size_t i = 0; i < queue.all.count; i++) {
		struct etcd_contender *c = etcd_queue_at(&queue, i);

		if (contender_may_hold(&c->is))
			c->is.ttl_ms =
				etcd_lease_ms(lister->state, c->lease, lock_lister_limit(lister));
	}
	if (good && queue.format > LOCK_FORMAT)
		good = lock_fail_format(failure, lister->server->text, queue.format);
	else if (good)
		good = contenders_show(
			&queue.all, name, name, lister->show, lister->context, failure);
	else
		failure_set(failure, EXIT_SYSTEM, "out of memory");
	etcd_queue_free(&queue);
	return good;
}

/* The lock's name that a key stands for; owned by the caller; NULL: it is no lock's, or not wanted.
 */
static char *wanted_name(const struct lock_lister *lister, const json_t *kv)
{
	const char *key = json_string_value(json_object_get(kv, "key"));
	char *name = etcd_key_name(key ? key : "", lister->query.prefix);

	if (!name || lock_query_wants(&lister->query, name))
		return name;
	free(name);
	return NULL;
}

/* A lock's keys stand next to each other. */
static bool show_all(struct lock_lister *lister, const json_t *kvs, struct failure *failure)
{
	char *name = NULL, *next;
	json_t *own = json_array();
	bool good = true;

	for (size_t i = 0; good && i <= json_array_size(kvs); i++) {
		json_t *kv = json_array_get(kvs, i);

		next = wanted_name(lister, kv);
		if (name && (!next || strcmp(next, name) != 0)) {
			good = show_lock(lister, own, name, failure);
			json_array_clear(own);
		}
		if (next)
			json_array_append(own, kv);
		free(name);
		name = next;
	}
	free(name);
	json_decref(own);
	return good;
}

static void list_close(void *state)
{
	gateway_close(state);
	free(state);
}

bool etcd_list(struct lock_lister *lister, struct failure *failure)
{
	bool first = !lister->state;
	struct gateway *gateway = lock_lister_state(lister, sizeof(*gateway), list_close, failure);
	char from[ETCD_KEY_SIZE], to[ETCD_KEY_SIZE];
	json_t *answer = NULL;
	enum lock_result result;
	bool good;

	if (!gateway)
		return false;
	if (first)
		gateway_open(gateway, lister->server);
	etcd_key_range(lister->query.prefix, NULL, from, to);
	result = gateway_call(gateway, "v3/kv/range",
		json_pack("{ss ss}", "key", from, "range_end", to), lock_lister_limit(lister),
		&answer, failure);
	if (result == LOCK_TIMEOUT || result == LOCK_CANCELLED)
		failure->code = EXIT_DONE; /* the code of one endpoint, perhaps */
	good = result == LOCK_GRANTED && show_all(lister, json_object_get(answer, "kvs"), failure);
	json_decref(answer);
	return good;
}

/* --- dlock check ----------------------------------------------------------------------------- */

/* 3.4.23 is 30423; 0: it is none that is known. */
static int read_version(const char *text)
{
	int major, minor, patch;

	return text && sscanf(text, "%d.%d.%d", &major, &minor, &patch) == 3
		       ? major * 10000 + minor * 100 + patch
		       : 0;
}

static const struct {
	int from, until; /* the first that is well again */
	const char *fault;
} faults[] = {
	{30500, 30503, "may lose or invent data when it is killed (etcd #13766)"},
	{30000, 30431, "may keep a lease alive that its cluster has ended (etcd #15247)"},
	{30500, 30513, "may keep a lease alive that its cluster has ended (etcd #15247)"},
	{30000, 30432, "may turn its revisions back after a crash (etcd #17780)"},
	{30500, 30514, "may turn its revisions back after a crash (etcd #17780)"},
};

static void judge_version(struct lock_finding *finding, const char *version, char text[static 400])
{
	int number = read_version(version);

	finding->found = text;
	snprintf(text, 400, "etcd %.40s", version ? version : "?");
	if (number < 30400) {
		finding->verdict = LOCK_UNFIT;
		finding->code = EXIT_PROTOCOL;
		finding->advice = "dlock needs etcd 3.4 or newer";
		return;
	}
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (number < faults[i].from || number >= faults[i].until)
			continue;
		finding->verdict = LOCK_DOUBTFUL;
		finding->code = EXIT_BUSY;
		finding->advice = "take 3.4.32, 3.5.14 or newer";
		snprintf(text + strlen(text), 400 - strlen(text), ", which %s", faults[i].fault);
	}
}

/* Asks one endpoint by itself. False: it does not answer, or is none of etcd's. */
static bool check_endpoint(
	const struct server *server, size_t at, lock_finding_taker *take, void *context)
{
	struct gateway gateway;
	char name[LOCK_SERVER_SIZE], text[400];
	struct lock_finding finding = {.server = server->text, .subject = "version"};
	struct failure failure = {0};
	json_t *answer = NULL;
	enum lock_result result;

	gateway_open(&gateway, server);
	gateway.at = at;
	if (server->endpoint_count > 1)
		finding.server = gateway_endpoint(&gateway, name);
	result = gateway_get(&gateway, "version",
		deadline_alone(clock_after(clock_now(), CHECK_LIMIT)), &answer, &failure);
	if (result == LOCK_GRANTED) {
		judge_version(
			&finding, json_string_value(json_object_get(answer, "etcdserver")), text);
	} else {
		finding.subject = "reach";
		finding.verdict = LOCK_UNFIT;
		finding.code = result == LOCK_FAILED ? failure.code : EXIT_UNREACHABLE;
		finding.found = result == LOCK_FAILED ? failure.text : "no answer";
		if (server->endpoint_count > 1) {
			finding.verdict = LOCK_DOUBTFUL;
			finding.code = EXIT_BUSY;
		}
	}
	take(&finding, context);
	json_decref(answer);
	gateway_close(&gateway);
	return result == LOCK_GRANTED;
}

bool etcd_check(const struct server *server, const struct lock_request *request,
	lock_finding_taker *take, void *context, struct failure *failure)
{
	char name[TRIAL_NAME];
	bool one = false;

	(void)failure;
	for (size_t i = 0; i < server->endpoint_count; i++)
		one = check_endpoint(server, i, take, context) || one;
	if (one || server->endpoint_count > 1)
		trial_report(server, request, trial_name(name), take, context);
	return true;
}
