/* What there is to see: for `dlock status` and `dlock check`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/etcd_lock.h"
#include "lock/lock_check.h"
#include "lock/trial.h"
#include "net/server.h"

#define CHECK_LIMIT (3 * NANOS_PER_SEC)

struct listing {
	struct gateway gateway;
	struct lock_query query;
	nanos span; /* for each answer */
	int cancel_fd;
	void (*show)(const struct lock_view *view, void *context);
	void *context;
};

/* --- dlock status ---------------------------------------------------------------------------- */

static struct deadline limit(const struct listing *l)
{
	return (struct deadline){clock_after(clock_now(), l->span), l->cancel_fd, DEADLINE_LEAST};
}

/* A holder is shown with what its lease has left. */
static void show_lock(struct listing *l, const struct queue *queue, const char *name,
	struct lock_view_owner *owners)
{
	struct lock_view view = {.name = name, .key = name};

	for (size_t i = 0; i < queue->all.count; i++) {
		struct etcd_contender *c = queue_at(queue, i);

		if (contender_may_hold(&c->is))
			c->is.ttl_ms = etcd_lease_ms(&l->gateway, c->lease, limit(l));
	}
	contenders_view(&queue->all, owners, &view);
	if (view.foreign || view.holder_count + view.waiter_count > 0)
		l->show(&view, l->context);
}

/* The contenders of one lock, from kvs[0] on; how many they are. */
static size_t show_next(struct listing *l, const json_t *kvs, size_t from, struct failure *failure)
{
	json_t *own = json_array();
	struct queue queue = {0};
	struct lock_view_owner *owners = NULL;
	char *name = NULL, *other = NULL;
	size_t at = from;

	for (; at < json_array_size(kvs); at++) {
		const char *key =
			json_string_value(json_object_get(json_array_get(kvs, at), "key"));

		other = key_name(key ? key : "", l->query.prefix);
		if (at > from && (!other || !name || strcmp(other, name) != 0))
			break;
		if (at == from)
			name = other;
		else
			free(other);
		other = NULL;
		json_array_append(own, json_array_get(kvs, at));
	}
	free(other);
	if (queue_read(&queue, json_incref(own), own))
		owners = calloc(2 * queue.all.count + 1, sizeof(*owners));
	if (!owners)
		failure_set(failure, EXIT_SYSTEM, "out of memory");
	else if (name && lock_query_wants(&l->query, name))
		show_lock(l, &queue, name, owners);
	queue_free(&queue);
	json_decref(own);
	free(owners);
	free(name);
	return owners ? at - from : 0;
}

static bool look(void *state, void (*show)(const struct lock_view *view, void *context),
	void *context, struct deadline deadline, struct failure *failure)
{
	struct listing *l = state;
	char from[KEY_SIZE], to[KEY_SIZE];
	json_t *answer = NULL;
	const json_t *kvs;
	enum lock_result result;
	size_t at = 0, more = 1;

	l->show = show;
	l->context = context;
	l->span = deadline.until == NANOS_NEVER ? CHECK_LIMIT : deadline.until - clock_now();
	l->cancel_fd = deadline.cancel_fd;
	key_range(l->query.prefix, NULL, from, to);
	failure->code = EXIT_DONE;
	result = gateway_call(&l->gateway, "v3/kv/range",
		json_pack("{ss ss}", "key", from, "range_end", to), deadline, &answer, failure);
	if (result == LOCK_TIMEOUT || result == LOCK_CANCELLED)
		failure_set(
			failure, EXIT_UNREACHABLE, "no answer from %s", l->gateway.server->text);
	kvs = json_object_get(answer, "kvs");
	for (; result == LOCK_GRANTED && more > 0 && at < json_array_size(kvs); at += more)
		more = show_next(l, kvs, at, failure);
	json_decref(answer);
	return result == LOCK_GRANTED && more > 0;
}

static void *list_open(
	const struct server *server, const struct lock_query *query, struct failure *failure)
{
	struct listing *l = calloc(1, sizeof(*l));

	if (!l) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	gateway_open(&l->gateway, server);
	l->query = *query;
	return l;
}

static void list_close(void *state)
{
	struct listing *l = state;

	gateway_close(&l->gateway);
	free(l);
}

const struct lock_list_ops etcd_list_ops = {list_open, look, list_close};

/* --- dlock check ----------------------------------------------------------------------------- */

struct check {
	void (*take)(const struct lock_finding *finding, void *context);
	void *context;
};

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
static bool check_endpoint(const struct server *server, size_t at, const struct check *check)
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
	check->take(&finding, check->context);
	json_decref(answer);
	gateway_close(&gateway);
	return result == LOCK_GRANTED;
}

bool etcd_check(const struct server *server, const struct lock_request *request,
	void (*take)(const struct lock_finding *finding, void *context), void *context,
	struct failure *failure)
{
	const struct check check = {take, context};
	char name[TRIAL_NAME];
	bool one = false;

	(void)failure;
	for (size_t i = 0; i < server->endpoint_count; i++)
		one = check_endpoint(server, i, &check) || one;
	if (one || server->endpoint_count > 1)
		trial_report(server, request, trial_name(name), take, context);
	return true;
}
