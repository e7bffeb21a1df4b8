#include "front_own.h"

#include <bsd/stdlib.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ancestry.h"
#include "handover.h"
#include "hold.h"
#include "inherited.h"
#include "keeper.h"
#include "message.h"
#include "outcome.h"

#define FIRST_ANSWER (5 * NANOS_PER_SEC)  /* a server that has never answered gets no longer */
#define CANCEL_LIMIT (500 * NANOS_PER_MS) /* taking the request back before dying of a signal */
#define LATE_LIMIT   (80 * NANOS_PER_MS)  /* the same when -w is over, which is kept to 100 ms */
#define RETRY_LEAST  50 /* ms between tries to reach a server that has answered before */
#define RETRY_MORE   200

/* How long the server may take: to the end of -w; 5 s if it has never answered. */
static nanos patience_end(const struct front *f)
{
	const struct front_task *task = f->task;
	nanos first = task->started + FIRST_ANSWER;
	nanos end = task->wait == 0 ? first : clock_after(task->started, task->wait);

	return !f->answered && first < end ? first : end;
}

static bool is_late(const struct front *f)
{
	return f->task->wait == 0 || clock_now() >= clock_after(f->task->started, f->task->wait);
}

static struct patience patience(const struct front *f)
{
	return (struct patience){patience_end(f), f->cancel_fd};
}

/* Takes back whatever may be under way: a place in the queue, a request that may yet be granted. */
static enum lock_result withdraw(struct front *f, nanos limit)
{
	static struct lock_answer answer; /* large, and seldom needed */

	if (!f->outstanding)
		return LOCK_RELEASED;
	lock_release(f->lock, NULL, (struct patience){clock_now() + limit, -1}, &answer);
	handover_see_to(f->lock, &answer);
	return answer.result;
}

static void end_by_signal(struct front *f, int signal)
{
	f->outcome->kind = OUTCOME_CANCELLED;
	f->outcome->end_signal = signal;
	withdraw(f, CANCEL_LIMIT);
}

/* The signal that ended a wait; 0: there was none after all. */
static int take_signal(const struct front *f)
{
	struct signalfd_siginfo info;

	return read(f->watch.ending_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)
		       ? (int)info.ssi_signo
		       : 0;
}

/* Nobody is left to hold the lock for. */
static void end_unasked(struct front *f)
{
	struct failure failure;

	failure_set(&failure, EXIT_SYSTEM, "process %d, which was to hold the lock, has ended",
		(int)f->task->hold->caller.pid);
	outcome_fail(f->outcome, &failure);
	withdraw(f, CANCEL_LIMIT);
}

/* The wait is over without the lock: it is held by another, or no server has answered at all. */
static void end_by_time(struct front *f)
{
	if (f->answered)
		f->outcome->kind = f->task->wait == 0 ? OUTCOME_BUSY : OUTCOME_TIMEOUT;
	else
		outcome_fail(f->outcome, &f->trouble);
	withdraw(f, LATE_LIMIT);
}

/* A connection that breaks is mended by the next try, once a server has answered or taken a
 * request; one that is refused from the start is not. */
static bool may_mend(const struct front *f, const struct failure *failure)
{
	return failure->code == EXIT_UNREACHABLE && (f->answered || f->outstanding);
}

/* That the last try was cut off by -w says less than what came of the one before. */
static void note_trouble(struct front *f, enum lock_result result, const struct failure *failure)
{
	if (failure->text[0] == '\0' || (result == LOCK_TIMEOUT && f->told))
		return;
	f->trouble = *failure;
	f->told = result != LOCK_TIMEOUT;
}

/* Something has come by cancel_fd. False: that ends it. */
static bool heed_cancel(struct front *f)
{
	int signal = take_signal(f);

	if (signal != 0)
		end_by_signal(f, signal);
	else if (f->task->hold && caller_is_gone(&f->task->hold->caller))
		end_unasked(f);
	else
		return true;
	return false;
}

/* Before the next try to reach the server. That may fail at once, again and again, and would never
 * come to look at the signals itself. */
static bool pause_for_retry(struct front *f)
{
	struct pollfd cancel = {.fd = f->cancel_fd, .events = POLLIN};

	return poll(&cancel, 1, RETRY_LEAST + (int)arc4random_uniform(RETRY_MORE)) <= 0 ||
	       heed_cancel(f);
}

/* Whether to go on after a step that did not succeed; else the outcome is set. */
static bool may_go_on(struct front *f, enum lock_result result, const struct failure *failure)
{
	note_trouble(f, result, failure);
	if (result == LOCK_CANCELLED)
		return heed_cancel(f);
	if (result == LOCK_ALREADY) {
		f->outcome->kind = OUTCOME_ALREADY;
		withdraw(f, LATE_LIMIT);
		return false;
	}
	if (result == LOCK_UNREPLICATED || (result == LOCK_FAILED && !may_mend(f, failure))) {
		outcome_fail(f->outcome, failure);
		withdraw(f, LATE_LIMIT);
		return false;
	}
	if (is_late(f) || (!f->answered && clock_now() >= patience_end(f))) {
		end_by_time(f);
		return false;
	}
	return result != LOCK_FAILED || pause_for_retry(f);
}

/* Where it cannot be asked, there is no turn to wait for either: what it answered before may have
 * been said by a server that has forgotten us since. */
static enum lock_result ask(struct front *f, struct failure *failure)
{
	enum lock_result result = lock_ask(f->lock, patience(f), failure);

	if (result == LOCK_GRANTED)
		f->outstanding = true;
	else
		f->lease->answer.result = result;
	return result;
}

static bool start_keeper(struct front *f, struct keeper_task *order)
{
	const struct front_task *task = f->task;
	struct failure failure;

	*order = (struct keeper_task){
		.lock = f->lock,
		.terms = task->terms,
		.program = task->program,
		.hold = task->hold,
		.inherited = task->inherited,
		.name = task->name,
		.answer_until = patience_end(f),
		.stop_signal = task->stop_signal,
		.nested = task->ancestry->tokens[0] != '\0',
		.close_early = task->close_early,
		.warn_when_lost = task->warn_when_lost,
	};
	if (watch_start(&f->watch, order))
		return true;
	failure_set(&failure, EXIT_SYSTEM, "cannot fork: %s", strerror(errno));
	outcome_fail(f->outcome, &failure);
	withdraw(f, LATE_LIMIT);
	return false;
}

/* The request was refused, or came too late. */
static void note_denial(struct front *f)
{
	const struct lock_answer *answer = &f->lease->answer;

	if (answer->result == LOCK_BUSY || answer->result == LOCK_ALREADY ||
		answer->result == LOCK_UNREPLICATED) {
		f->answered = true;
		f->outcome->answer = *answer;
		handover_see_to(f->lock, &f->lease->answer);
	}
}

/* Whether the holder may be a dlock around this one that our environment did not tell of. */
static bool found_outer(struct front *f)
{
	if (f->lease->answer.result != LOCK_BUSY || f->ancestry_learned)
		return false;
	f->ancestry_learned = true;
	return ancestry_learn(f->task->ancestry, f->task->self, &f->outcome->answer);
}

/* Then no keeper is forked in vain. On a busy machine the server may stand in line for our
 * processor: at the first request, of which nothing is known yet, it goes first. That takes no
 * longer than one of our own slices, which is little where they are short. */
static bool is_busy_at_once(const struct front *f)
{
	if (!f->answered && f->task->inherited->slice != 0)
		sched_yield();
	return lock_is_busy(f->lock);
}

static bool try_once(struct front *f);

/* After a denial. True: the outcome is still open. */
static bool goes_on(struct front *f)
{
	note_denial(f);
	if (found_outer(f))
		return try_once(f);
	return may_go_on(f, f->lease->answer.result, &f->lease->answer.failure);
}

/* One request, from asking to COMMAND's end. True: it was denied, and the outcome is still open. */
static bool try_once(struct front *f)
{
	struct failure failure = {0};
	struct keeper_task order;
	int signal;
	enum lock_result result = ask(f, &failure);

	if (result != LOCK_GRANTED)
		return may_go_on(f, result, &failure);
	if (is_busy_at_once(f)) {
		lock_answer(f->lock, patience(f), &f->lease->answer);
		return goes_on(f);
	}
	if (!start_keeper(f, &order))
		return false;

	switch (watch_run(&f->watch, &order, &signal)) {
	case WATCH_CANCELLED:
		end_by_signal(f, signal);
		return false;
	case WATCH_LATE:
		/* What the keeper had heard so far, before it was killed. */
		failure = f->lease->answer.failure;
		f->lease->answer.result = LOCK_TIMEOUT;
		return may_go_on(f, LOCK_TIMEOUT, &failure);
	case WATCH_DIED:
		front_take_over(f, &order);
		return false;
	case WATCH_OVER:
		break;
	}
	if (atomic_load(&f->lease->phase) == LEASE_DENIED) {
		lock_learn(f->lock, &f->lease->answer);
		return goes_on(f);
	}
	if (atomic_load(&f->lease->phase) == LEASE_PARTED)
		front_hear_parting(f, &order);
	if (f->task->hold)
		front_conclude_hold(f);
	else
		front_conclude(f);
	return false;
}

static bool wait_for_turn(struct front *f)
{
	struct patience limit = patience(f);
	struct failure failure = {0};
	enum lock_result result;

	if (f->lease->answer.result != LOCK_BUSY)
		return true;
	limit.cancel_fd = wait_line_begin(&f->line, &f->outcome->answer);
	do {
		result = lock_listen(f->lock, limit, &failure);
	} while (result == LOCK_CANCELLED && wait_line_goes_on(&f->line));
	wait_line_end(&f->line);
	return result == LOCK_GRANTED || may_go_on(f, result, &failure);
}

/* --- Without a COMMAND ------------------------------------------------------------------------ */

/* The lock is ours: either the caller has heard of it, or it is given back. */
static bool deliver(struct front *f)
{
	const struct front_task *task = f->task;
	struct lock_answer *answer = &f->lease->answer;
	struct patience limit = {
		lease_valid_until(&task->terms, answer->asked_at), f->watch.ending_fd};
	enum lock_result result = LOCK_TIMEOUT; /* granted so late that it is as good as expired */

	f->answered = true;
	memcpy(&f->outcome->answer, answer, offsetof(struct lock_answer, handed));
	f->outcome->waited = answer->asked_at - task->started;
	if (clock_now() < limit.until)
		result = task->deliver(f->lock, answer, limit);
	if (result == LOCK_GRANTED) {
		f->outcome->kind = OUTCOME_ACQUIRED;
		handover_see_to(f->lock, answer);
		return false;
	}
	if (withdraw(f, RELEASE_LIMIT) != LOCK_RELEASED)
		message_say(MESSAGE_WARNING, "the lock could not be given back; it frees itself");
	return may_go_on(f, result, &answer->failure);
}

/* One request, and its answer. As try_once. */
static bool try_detached(struct front *f)
{
	struct lock_answer *answer = &f->lease->answer;
	struct failure failure = {0};
	enum lock_result result = ask(f, &failure);

	if (result != LOCK_GRANTED)
		return may_go_on(f, result, &failure);
	lock_answer(f->lock, patience(f), answer);
	switch (answer->result) {
	case LOCK_GRANTED:
		return deliver(f);
	case LOCK_WITHIN:
		answer->result = LOCK_FAILED;
		failure_set(&answer->failure, EXIT_DEADLOCK,
			"waiting would deadlock: a dlock around this one holds it");
		break;
	case LOCK_BUSY:
		f->answered = true;
		f->outcome->answer = *answer;
		handover_see_to(f->lock, answer);
		if (found_outer(f))
			return try_detached(f);
		break;
	case LOCK_UNREPLICATED:
		handover_see_to(f->lock, answer);
		break;
	default:
		break;
	}
	return may_go_on(f, answer->result, &answer->failure);
}

static void go_through(
	const struct front_task *task, bool (*try)(struct front *f), struct outcome *outcome)
{
	struct front f = {.task = task,
		.lock = task->lock,
		.outcome = outcome,
		.trouble = {EXIT_UNREACHABLE, "no answer from the server"}};
	struct failure failure;

	if (!watch_open(&f.watch, task->inherited)) {
		failure_set(&failure, EXIT_SYSTEM, "%s", strerror(errno));
		outcome_fail(outcome, &failure);
		return;
	}
	f.lease = f.watch.lease;
	f.cancel_fd = f.watch.ending_fd;
	if (task->hold && (f.cancel_fd = hold_cancel_fd(task->hold, f.cancel_fd)) < 0) {
		failure_set(&failure, EXIT_SYSTEM, "%s", strerror(errno));
		outcome_fail(outcome, &failure);
		return;
	}
	wait_line_open(&f.line, task->name, f.cancel_fd);
	while (try(&f) && wait_for_turn(&f))
		continue;
	if (outcome->answer.result != LOCK_GRANTED)
		outcome->waited = clock_now() - task->started;
}

void front_run(const struct front_task *task, struct outcome *outcome)
{
	go_through(task, try_once, outcome);
}

void front_acquire(const struct front_task *task, struct outcome *outcome)
{
	go_through(task, try_detached, outcome);
}
