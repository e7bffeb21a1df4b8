#include "lock/lock_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "lock/service.h"
#include "lock/services.h"
#include "net/server.h"

#define REPORT_LIMIT (5 * NANOS_PER_SEC) /* for each step */

struct trial {
	const struct server *server;
	struct lock_request request;
	nanos patience;
	struct lock *one, *other; /* owned */
	struct lock_answer answer;
	const char *step; /* the one that is under way */
};

static struct deadline limit(const struct trial *trial)
{
	return deadline_alone(clock_after(clock_now(), trial->patience));
}

static bool expect(struct trial *trial, enum lock_result wanted)
{
	if (trial->answer.result == wanted)
		return true;
	if (trial->answer.result == LOCK_TIMEOUT)
		failure_set(&trial->answer.failure, EXIT_UNREACHABLE, "no answer");
	else if (trial->answer.result != LOCK_FAILED)
		failure_set(&trial->answer.failure, EXIT_PROTOCOL, "an answer that makes no sense");
	return false;
}

static bool take(struct trial *trial, struct lock *lock, const char *step, enum lock_result wanted)
{
	trial->step = step;
	lock_take(lock, limit(trial), &trial->answer);
	return expect(trial, wanted);
}

static bool extend(struct trial *trial)
{
	trial->step = "extended";
	lock_renew(trial->one, limit(trial), &trial->answer);
	return expect(trial, LOCK_GRANTED);
}

static bool release(struct trial *trial, struct lock *lock, const char *step)
{
	trial->step = step;
	lock_release(lock, NULL, limit(trial), &trial->answer);
	return expect(trial, LOCK_RELEASED);
}

static bool wait_for_turn(struct trial *trial)
{
	trial->step = "woken";
	trial->answer.result = lock_wait(trial->other, limit(trial), &trial->answer.failure);
	return expect(trial, LOCK_GRANTED);
}

/* The process that handed it on asks whether it was taken. */
static bool verify(struct trial *trial)
{
	trial->step = "verified";
	if (!lock_verify(trial->one, trial->patience))
		return true;
	return failure_set(&trial->answer.failure, EXIT_UNREACHABLE, "no answer");
}

static void ignore(const struct lock_view *view, void *context)
{
	(void)view;
	(void)context;
}

static bool look(struct trial *trial)
{
	char *names[] = {(char *)trial->request.name};
	struct lock_query query = {
		.prefix = trial->request.prefix, .patterns = names, .pattern_count = 1};
	struct failure *failure = &trial->answer.failure;
	struct lock_lister *lister;
	bool good;

	trial->step = "shown";
	trial->answer.result = LOCK_FAILED;
	lister = lock_list_open(trial->server, &query, failure);
	good = lister && lock_list_look(lister, ignore, NULL, limit(trial), failure);
	if (lister)
		lock_list_close(lister);
	return good;
}

static bool run(struct trial *trial)
{
	return take(trial, trial->one, "taken", LOCK_GRANTED) &&
	       take(trial, trial->other, "queued for", LOCK_BUSY) && look(trial) && extend(trial) &&
	       release(trial, trial->one, "handed off") && wait_for_turn(trial) &&
	       take(trial, trial->other, "claimed", LOCK_GRANTED) && verify(trial) &&
	       release(trial, trial->other, "released");
}

static void clean_up(struct trial *trial)
{
	struct lock *const locks[] = {trial->one, trial->other};

	for (size_t i = 0; i < 2; i++) {
		if (!locks[i])
			continue;
		lock_release(locks[i], NULL, limit(trial), &trial->answer);
		lock_close(locks[i]);
	}
}

bool trial_run(const struct server *server, const struct lock_request *request, const char *name,
	nanos patience, const char **step, struct failure *failure)
{
	static struct trial trial; /* large */
	bool done;

	trial = (struct trial){.server = server, .patience = patience, .step = "taken"};
	trial.request = (struct lock_request){.name = name,
		.prefix = request->prefix,
		.mode = LOCK_EXCLUSIVE,
		.ttl_ms = request->ttl_ms,
		.queues = true,
		.self = request->self};
	trial.one = lock_open(server, &trial.request, &trial.answer.failure);
	trial.other = trial.one ? lock_open(server, &trial.request, &trial.answer.failure) : NULL;
	done = trial.other && run(&trial);
	*failure = trial.answer.failure;
	*step = trial.step;
	clean_up(&trial);
	return done;
}

void trial_report(const struct server *server, const struct lock_request *request, const char *name,
	lock_finding_taker *tell, void *context)
{
	struct lock_finding finding = {.server = server->text,
		.subject = "lock",
		.found = "taken, handed off and released"};
	struct failure failure = {0};
	const char *step;

	if (!trial_run(server, request, name, REPORT_LIMIT, &step, &failure)) {
		finding.verdict = LOCK_UNFIT;
		finding.code = failure.code;
		failure_set(
			&failure, failure.code, "a lock could not be %s: %s", step, failure.text);
		finding.found = failure.text;
	}
	tell(&finding, context);
}

const char *trial_name(char name[static TRIAL_NAME])
{
	snprintf(name, TRIAL_NAME, "dlock-check-%d-%" PRId64, (int)getpid(), clock_now());
	return name;
}

bool lock_check_server(const struct server *server, const struct lock_request *request,
	lock_finding_taker *tell, void *context, struct failure *failure)
{
	return services_serve(server, failure) &&
	       server->service->check(server, request, tell, context, failure);
}
