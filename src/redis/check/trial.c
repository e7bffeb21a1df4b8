/* Locks for trial: one takes it, another one queues, gets it handed over, and gives it back. So
 * each script runs, with the keys that it does not declare. */
#include "redis/check/trial.h"

#include <string.h>

#include "net/server.h"
#include "redis/check/probe.h"
#include "redis/keys.h"
#include "redis/link/connection.h"
#include "redis/redis_service.h"
#include "redis/script/script.h"

struct trial {
	struct probe *probe;
	struct lock *one, *other; /* owned */
	struct lock_answer answer;
	const char *step; /* the one that is under way */
};

static struct deadline deadline(void)
{
	return (struct deadline){.until = clock_after(clock_now(), PROBE_LIMIT),
		.cancel_fd = -1,
		.least = DEADLINE_LEAST};
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
	trial->answer.result = redis_service.ask(lock, deadline(), &trial->answer.failure);
	if (!expect(trial, LOCK_GRANTED))
		return false;
	redis_service.answer(lock, deadline(), &trial->answer);
	return expect(trial, wanted);
}

static bool extend(struct trial *trial)
{
	trial->step = "extended";
	redis_service.renew(trial->one, deadline(), &trial->answer);
	return expect(trial, LOCK_GRANTED);
}

static bool give(struct trial *trial, struct lock *lock, const char *step)
{
	trial->step = step;
	redis_service.release(lock, NULL, deadline(), &trial->answer);
	return expect(trial, LOCK_RELEASED);
}

static bool hear(struct trial *trial)
{
	trial->step = "woken";
	trial->answer.result = redis_service.wait(trial->other, deadline(), &trial->answer.failure);
	return expect(trial, LOCK_GRANTED);
}

/* Who handed it on asks whether it was taken. */
static bool verify(struct trial *trial, struct lock_answer *handed)
{
	trial->step = "verified";
	trial->answer.result = redis_service.verify(trial->one, handed, deadline());
	trial->answer.failure = handed->failure;
	return expect(trial, LOCK_RELEASED);
}

static void ignore(const struct lock_view *view, void *context)
{
	(void)view;
	(void)context;
}

static bool look(struct trial *trial, const char *name)
{
	char *names[] = {(char *)name};
	const struct probe *probe = trial->probe;

	trial->step = "shown";
	trial->answer.result = LOCK_FAILED;
	return redis_service.list(probe->server, probe->request->prefix, names, 1, false, ignore,
		NULL, deadline(), &trial->answer.failure);
}

static bool run(struct trial *trial, const char *name)
{
	static struct lock_answer handed; /* large */

	if (!take(trial, trial->one, "taken", LOCK_GRANTED) ||
		!take(trial, trial->other, "queued for", LOCK_BUSY) || !look(trial, name) ||
		!extend(trial) || !give(trial, trial->one, "handed over"))
		return false;
	handed = trial->answer;
	return hear(trial) && take(trial, trial->other, "claimed", LOCK_GRANTED) &&
	       verify(trial, &handed) && give(trial, trial->other, "given back");
}

/* Whatever was reached, nothing of it stays. */
static void clean_up(struct trial *trial, const struct keys *keys)
{
	struct probe_command away = {
		.words = {"DEL", keys->lock, keys->meta, keys->holders, keys->queue}};
	struct failure unheard;
	struct reply *reply;

	for (size_t i = 0; i < 2; i++) {
		struct lock *lock = i == 0 ? trial->one : trial->other;

		if (!lock)
			continue;
		redis_service.release(lock, NULL, deadline(), &trial->answer);
		redis_service.close(lock);
	}
	if (probe_ask(trial->probe, &away, 1, &reply, &unheard))
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
		probe_report(probe, "scripts", LOCK_DOUBTFUL, EXIT_DONE,
			"talk to the server itself, without a proxy",
			"they work, but are not kept: each request sends them in full");
	else
		probe_report(probe, "scripts", LOCK_FIT, EXIT_DONE, NULL,
			"a lock was taken, extended, handed over and given back");
	reply_free(reply);
}

void trial_run(struct probe *probe)
{
	static struct trial trial; /* large */
	struct lock_request request = *probe->request;
	struct failure failure;
	struct keys keys;
	char name[40];
	bool done;

	if (!probe_name_keys(probe, name, &keys))
		return;
	request = (struct lock_request){.name = name,
		.prefix = request.prefix,
		.mode = LOCK_EXCLUSIVE,
		.ttl_ms = request.ttl_ms,
		.queues = true,
		.self = request.self};
	trial = (struct trial){.probe = probe, .step = "taken"};
	trial.one = redis_service.open(probe->server, &request, &trial.answer.failure);
	trial.other = redis_service.open(probe->server, &request, &trial.answer.failure);
	done = trial.one && trial.other && run(&trial, name);
	failure = trial.answer.failure;
	clean_up(&trial, &keys);
	keys_free(&keys);
	if (done)
		judge_memory_for_scripts(probe);
	else
		probe_report(probe, "scripts", LOCK_UNFIT, failure.code, NULL,
			"a lock could not be %s: %s", trial.step, failure.text);
}
