#include "supervise/front.h"

#include <bsd/string.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/message.h"
#include "base/deadline.h"
#include "lock/asking.h"
#include "lock/lock_set.h"
#include "lock/nesting.h"
#include "lock/token.h"
#include "supervise/guest.h"
#include "supervise/keeper.h"
#include "supervise/keeper_watch.h"
#include "supervise/notify.h"
#include "supervise/outcome.h"
#include "supervise/takeover.h"
#include "supervise/task.h"

#define SILENT_MOST  3 /* times that a host is tried which does not answer */
#define SILENT_PAUSE (100 * NANOS_PER_MS)

/* A signal came before the grant, or the end of what the lock was for. */
static bool was_cancelled(const struct keeper_watch *watch, struct outcome *outcome)
{
	struct failure failure;

	if (watch->cancel_signal != 0) {
		outcome->kind = OUTCOME_CANCELLED;
		outcome->end_signal = watch->cancel_signal;
	} else if (watch->ward_gone) {
		watch->task->ward.ops->explain_end(watch->task, &failure);
		outcome_fail(outcome, &failure);
	} else {
		return false;
	}
	return true;
}

/* The keeper has done its work, or does without us: settles the outcome. */
static void conclude(struct keeper_watch *watch, struct outcome *outcome)
{
	const struct task *run = watch->task;
	const struct lease *lease = run->lease;

	if (lease->granted_at == 0) {
		if (!was_cancelled(watch, outcome))
			outcome_deny(outcome, lease->answer.result, run->wait != 0, &lease->answer,
				&lease->answer.failure);
		outcome->waited = clock_now() - run->started;
		outcome->answered_at = lease->answered_at;
		if (lease->unheard)
			outcome_say_left(outcome, lease->terms.ttl);
		return;
	}
	outcome_read_lease(outcome, lease, run->started);
	keeper_watch_record_signals(watch);
	run->ward.ops->conclude(watch, outcome);
}

/* The keeper died before its work was done, or was killed as it stood still. */
static void take_over(struct keeper_watch *watch, bool late, struct outcome *outcome)
{
	static struct lock_answer answer; /* large */
	const struct task *run = watch->task;
	enum outcome_kind kind;
	bool taken_back;

	if (!late) {
		kind = takeover(watch);
		outcome_read_lease(outcome, run->lease, run->started);
		outcome->kind = kind;
		if (run->lease->granted_at == 0)
			was_cancelled(watch, outcome);
		return;
	}
	taken_back = takeover_withdraw(watch);
	if (!was_cancelled(watch, outcome)) {
		if (!wait_page_read(&run->lease->waits, &answer, &outcome->answered_at)) {
			answer.result = LOCK_FAILED;
			failure_set(&answer.failure, EXIT_UNREACHABLE, "no answer from the server");
		}
		outcome_deny(outcome, answer.result, run->wait != 0, &answer, &answer.failure);
		outcome->waited = clock_now() - run->started;
	}
	if (!taken_back)
		outcome_say_left(outcome, run->lease->terms.ttl);
}

/* In phase LINGERING the last of the tree may end meanwhile, and the keeper with it, as it should.
 */
static bool left_alone(struct keeper_watch *watch)
{
	const struct ward_ops *ward = watch->task->ward.ops;

	return atomic_load(&watch->lease->phase) == LEASE_LINGERING && ward->leave_behind &&
	       !ward->leave_behind(watch) && atomic_load(&watch->lease->phase) != LEASE_ENDED;
}

static void fail(struct outcome *outcome, const char *what)
{
	struct failure failure;

	failure_set(&failure, EXIT_SYSTEM, "%s%s", what, strerror(errno));
	outcome_fail(outcome, &failure);
}

/* ---- what is held around us ---- */

static const char *name_of(const struct task *run, size_t i)
{
	return i == 0 ? run->name : run->also[i - 1];
}

/* Opens what is left to be asked for. */
static bool open_rest(struct task *run, struct failure *failure)
{
	struct lock_request request = *run->request;
	const char **rest = calloc(run->also_count + 1, sizeof(*rest));
	size_t count = 0;

	if (!rest)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	lock_close(run->lock);
	run->lock = NULL;
	for (size_t i = 0; i <= run->also_count; i++)
		if (!guest_find(run->guest, name_of(run, i)))
			rest[count++] = name_of(run, i);
	request.name = count > 0 ? rest[0] : NULL;
	if (count > 0)
		run->lock = run->also_count == 0 ? lock_open(run->server, &request, failure)
						 : lock_set_open(run->server, &request, rest + 1,
							   count - 1, failure);
	free(rest);
	return count == 0 || run->lock;
}

/* A success on record can be found inside; but none can be put there. */
static bool wants_record(const struct task *run, const char *name)
{
	const struct lock_request *request = run->request;

	return (request->once || request->cooldown_ms > 0) && strcmp(name, run->name) == 0;
}

/* Locks that are known to be held around us: nothing is asked for them. False with failure. */
static bool join_known(const struct task *run, struct failure *failure)
{
	char token[LOCK_TOKEN_SIZE];

	for (size_t i = 0; run->nesting->held[0] != '\0' && i <= run->also_count; i++) {
		const char *name = name_of(run, i), *line = NULL;
		enum guest_end end = GUEST_SILENT;

		if (guest_find(run->guest, name) || wants_record(run, name))
			continue;
		while ((end == GUEST_SILENT || end == GUEST_OTHER) &&
			(line = nesting_next(run->nesting, name, line, token)))
			end = guest_join(
				run, &(struct guest_wish){.name = name, .token = token}, failure);
		if (end == GUEST_REFUSED)
			return false;
	}
	return true;
}

/* A holder that was told of by the server. False with failure: it is not to be had. */
static bool join_found(const struct task *run, const struct lock_answer *found, int *silent,
	struct failure *failure)
{
	const char *name = found->name ? found->name : run->name;
	char token[LOCK_TOKEN_SIZE];
	struct guest_wish wish = {.name = name, .token = token, .told = true};
	nanos began;

	if (wants_record(run, name))
		return failure_set(failure, EXIT_USAGE,
			"%s cannot be had inside its holder: the success could not be put on "
			"record",
			run->request->once ? "--once" : "--cooldown");
	strlcpy(token, found->holder_token, sizeof(token));
	began = clock_now();
	wish.by_ancestry = !token_is_among(run->nesting->tokens, token);
	switch (guest_join(run, &wish, failure)) {
	case GUEST_REFUSED:
		return false;
	case GUEST_OTHER: /* its caller has released it: it is as any other's */
		strlcpy(run->nesting->over, token, sizeof(run->nesting->over));
		return true;
	case GUEST_SILENT: /* perhaps it ends just now */
		if (++*silent < SILENT_MOST && clock_now() - began < NANOS_PER_SEC)
			return deadline_pause(deadline_alone(NANOS_NEVER), SILENT_PAUSE);
		return failure_set(failure, EXIT_DEADLOCK,
			"waiting would deadlock: a dlock around this one holds it, and its keeper "
			"does not answer here (it is in another network namespace, or hangs, or is "
			"dead; or the lock is detached)");
	default:
		return true;
	}
}

/* The words for the keeper in the lease if nothing is to be asked for. */
static void grant(const struct task *run)
{
	struct lease *lease = run->lease;
	nanos now = clock_now();

	lease->answer = (struct lock_answer){
		.result = LOCK_GRANTED, .asked_at = now, .granted_at = now, .ttl_ms = LOCK_NO_TTL};
	lease->terms.at_least = 0;
	if (lease->covered) {
		lease->granted_at = now;
		lease->answer.fence = run->guest->locks[0].fence;
	}
}

static const struct lock_answer *found_around(
	const struct keeper_watch *watch, enum keeper_watch_end end)
{
	const struct lease *lease = watch->lease;

	if (end != KEEPER_WATCH_OVER || lease->granted_at != 0 || watch->cancel_signal != 0 ||
		watch->ward_gone)
		return NULL;
	return lease->answer.result == LOCK_AROUND ? &lease->answer : watch->around;
}

/* ---- the run ---- */

/* One keeper, from its fork to its end. True: a dlock around this one was found, and *found says
 * which; else the outcome is settled. */
static bool run_keeper(
	struct task *run, struct notify *notify, struct lock_answer *found, struct outcome *outcome)
{
	struct keeper_watch watch;
	const struct lock_answer *around;
	enum keeper_watch_end end;

	run->nested = run->nesting->tokens[0] != '\0';
	if (!keeper_watch_open(&watch, run, notify) || !tree_open(&watch.tree)) {
		fail(outcome, "");
		return false;
	}
	if (run->lease->covered) {
		conclude(&watch, outcome);
		return false;
	}
	if (!keeper_watch_start(&watch, keeper_start)) {
		fail(outcome, errno == ENOSYS
				      ? "dlock needs Linux 5.3 or later, for pidfd_open(2): "
				      : "cannot fork: ");
		return false;
	}
	end = keeper_watch_run(&watch);
	around = found_around(&watch, end);
	if (around) {
		*found = *around;
		keeper_watch_close(&watch);
		lease_begin_anew(run->lease);
	} else if (end == KEEPER_WATCH_OVER && !left_alone(&watch)) {
		conclude(&watch, outcome);
	} else {
		take_over(&watch, end == KEEPER_WATCH_LATE, outcome);
	}
	return around != NULL;
}

static void run_keepers(struct task *run, struct notify *notify, struct outcome *outcome)
{
	static struct lock_answer found; /* large */
	struct failure failure;
	int silent = 0;
	bool good =
		join_known(run, &failure) && (run->guest->count == 0 || open_rest(run, &failure));

	while (good) {
		if (!run->lock)
			grant(run);
		if (!run_keeper(run, notify, &found, outcome))
			break;
		good = join_found(run, &found, &silent, &failure) && open_rest(run, &failure);
	}
	if (!good)
		outcome_fail(outcome, &failure);
}

void front_run(struct task *run, struct outcome *outcome)
{
	static struct guest guest; /* large */
	struct notify notify;

	run->guest = &guest;
	notify_open(&notify, run->name, run->notify_ready);
	run->notifies = notify.wanted;
	run_keepers(run, &notify, outcome);
	notify_end(&notify, outcome);
}
