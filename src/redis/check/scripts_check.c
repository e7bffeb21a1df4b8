/* Whether dlock's scripts work: each runs for a lock for trial, with the keys that it does not
 * declare. */
#include "redis/check/probe.h"

#include <string.h>

#include "lock/trial.h"
#include "net/server.h"
#include "redis/keys.h"
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
		probe_report(probe, "scripts", LOCK_DOUBTFUL, EXIT_DONE,
			"talk to the server itself, without a proxy",
			"they work, but are not kept: each request sends them in full");
	else
		probe_report(probe, "scripts", LOCK_FIT, EXIT_DONE, NULL,
			"a lock was taken, renewed, handed off and released");
	reply_free(reply);
}

void scripts_check(struct probe *probe)
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
