#include "supervise/front.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/failure.h"
#include "base/message.h"
#include "base/number.h"
#include "lock/handoff.h"
#include "lock/holder.h"
#include "lock/nesting.h"
#include "process/caller_state.h"
#include "process/process.h"
#include "supervise/command_ward.h"
#include "supervise/contact.h"
#include "supervise/guardian.h"
#include "supervise/keeper.h"
#include "supervise/keeper_task.h"
#include "supervise/keeper_watch.h"
#include "supervise/notify.h"
#include "supervise/outcome.h"
#include "supervise/release_terms.h"
#include "supervise/takeover.h"
#include "supervise/wait_line.h"

#define FIRST_ANSWER (5 * NANOS_PER_SEC)  /* a server that has never answered gets no longer */
#define CANCEL_LIMIT (500 * NANOS_PER_MS) /* taking the request back if it is not late yet */
#define WAIT_LEAST   (80 * NANOS_PER_MS)  /* for a step of the last try if -w is over by then */
#define LATE_LIMIT   (80 * NANOS_PER_MS)  /* the same when -w is over, which is kept to 100 ms */
#define RETRY_LEAST  50 /* ms between tries to reach a server that has answered before */
#define RETRY_MORE   200
#define SHORT_WAIT   (100 * NANOS_PER_MS) /* not worth a look at the ancestors */

struct front {
	const struct front_task *task;
	const struct ward *ward;
	bool (*try)(struct front *f); /* one request; true: denied, the outcome is still open */
	struct lock *lock;
	struct outcome *outcome;
	struct keeper_watch watch;
	struct lease *lease;
	struct wait_line line;
	struct notify notify;
	int cancel_fd;          /* what ends a wait: watch.ending_fd, and perhaps the ward's end */
	struct failure trouble; /* why no server has answered yet */
	bool told;              /* it has said so itself */
	nanos began; /* the first answer is waited for from here: the start, or the end of --settle
		      * for which -n has waited */
	bool answered; /* a server has answered: from now on a broken connection is mended */
	struct contact contact; /* whether it still does */
	bool passes;            /* a server is there, but cannot serve yet */
	bool granted;           /* outcome.waited ended with that */
	nanos look_at; /* for a dlock around this one; 0: never denied so far; NANOS_NEVER: done */
	bool outstanding; /* a request or a place in the queue is to be taken back in the end */
	bool left;        /* the server has not said of all of that that it is gone */
	bool delivered;   /* acquire had the lock, but nobody to tell */
};

/* ---- how a run ends: with the keeper's word, or without it ---- */

static void report_run(struct front *f)
{
	outcome_read_lease(f->outcome, f->lease, f->task->started);
	f->granted = f->lease->granted_at != 0;
}

/* The keeper has sent the release and ended while the server worked on it: reads the answer. */
static void front_finish_release(struct front *f)
{
	struct lock_answer *answer =
		&f->outcome->answer; /* until report_run puts the grant there */

	lock_adopt_answer(f->lock, &f->lease->answer);
	lock_release_finish(f->lock, &f->lease->release_terms,
		release_terms_limit(f->lease->release_until), answer);
	release_terms_report(f->lease, answer);
	handoff_see_to(f->lock);
}

/* The keeper has done its work, or does without us: settles the outcome. */
static void front_conclude(struct front *f)
{
	report_run(f);
	keeper_watch_record_signals(&f->watch);
	f->ward->ops->conclude(f->ward->own, &f->watch, lock_token(f->lock), f->outcome);
}

/* The keeper died before its work was done. */
static void front_take_over(struct front *f, const struct keeper_task *order)
{
	enum outcome_kind kind = takeover(&f->watch, order);

	report_run(f);
	f->outcome->kind = kind;
}

/* ---- asking and waiting ---- */

static const struct failure no_answer = {
	.code = EXIT_UNREACHABLE, .text = "no answer from the server"};

/* How long the server may take: to the end of -w; 5 s if it has never answered, unless all that it
 * needs is time. */
static nanos patience_end(const struct front *f)
{
	const struct front_task *task = f->task;
	nanos first = f->began + FIRST_ANSWER;
	nanos end = task->wait == 0 ? first : clock_after(task->started, task->wait);

	if (f->answered || first > end || (f->passes && end != NANOS_NEVER))
		return end;
	return first;
}

/* -n waits for nothing else than --settle. */
static bool waits_to_settle(const struct front *f)
{
	const struct lock_answer *answer = &f->lease->answer;

	return f->task->wait == 0 && answer->result == LOCK_BUSY && answer->settling_ms > 0;
}

/* With -n that is at once, unless a server that has not answered yet needs nothing but time. */
static bool is_late(const struct front *f)
{
	if (f->task->wait == 0)
		return !waits_to_settle(f) && (f->answered || !f->passes);
	return clock_now() >= clock_after(f->task->started, f->task->wait);
}

/* What a step gets that finds itself late: a host may stand still, or starve dlock, from before it
 * asks until after the answer is there. With -w it is no more than nobody notices. */
static nanos step_least(const struct front *f)
{
	return patience_end(f) == f->began + FIRST_ANSWER ? DEADLINE_LEAST : WAIT_LEAST;
}

static struct deadline deadline(const struct front *f)
{
	return (struct deadline){
		.until = patience_end(f), .cancel_fd = f->cancel_fd, .least = step_least(f)};
}

/* The caller is not to wait until all is taken back: a guardian goes on trying. If it cannot do it
 * either, a lock that was granted stays for its TTL. */
static void leave_behind(struct front *f)
{
	struct failure *failure = &f->outcome->failure;
	char span[DURATION_TEXT];

	if (f->watch.guardian.pid == 0 || process_has_ended(f->watch.guardian.fd))
		guardian_start(&f->watch.guardian, f->lock);
	guardian_leave(&f->watch.guardian);
	duration_format(f->lease->terms.ttl, span);
	if (f->delivered)
		message_say(MESSAGE_WARNING,
			"the lock could not be released; it frees itself within %s", span);
	else if (failure->code != EXIT_DONE)
		failure_set(failure, failure->code,
			"%s; if the lock was granted all the same, it frees itself within %s",
			failure->text, span);
	else
		message_say(MESSAGE_WARNING,
			"what was asked for could not be taken back yet; if the lock was granted, "
			"it frees itself within %s",
			span);
}

/* A server that refuses us has granted nothing, and will not be asked any more. */
static bool is_refused(const struct failure *failure)
{
	return failure->code == EXIT_REFUSED || failure->code == EXIT_USAGE;
}

/* Takes back whatever may be under way: a place in the queue, a request that may yet be granted. */
static enum lock_result withdraw(struct front *f, nanos limit)
{
	static struct lock_answer answer; /* large, and seldom needed */
	struct deadline limited = {
		.until = clock_now() + limit, .cancel_fd = -1, .least = WAIT_LEAST};

	if (!f->outstanding)
		return LOCK_RELEASED;
	lock_release(f->lock, NULL, limited, &answer);
	handoff_see_to(f->lock);
	f->left = !is_refused(&f->outcome->failure) &&
		  (answer.result == LOCK_TIMEOUT || answer.result == LOCK_FAILED);
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

/* The wait is over without the lock: it is held by another, or no server has answered, at all or
 * any longer. */
static void record_end_of_time(struct front *f)
{
	if (f->answered && f->contact.lost_at == 0)
		f->outcome->kind = f->task->wait == 0 ? OUTCOME_BUSY : OUTCOME_TIMEOUT;
	else
		outcome_fail(f->outcome, &f->trouble);
}

/* A connection that breaks is mended by the next try, once a server has answered or taken a
 * request; one that is refused from the start is not. */
static bool may_mend(const struct front *f, const struct failure *failure)
{
	return failure->code == EXIT_UNREACHABLE && (f->answered || f->outstanding || f->passes);
}

/* That the last try was cut off by -w says less than what came of the one before. */
static void record_trouble(struct front *f, enum lock_result result, const struct failure *failure)
{
	if (failure->text[0] == '\0' || (result == LOCK_TIMEOUT && f->told))
		return;
	f->trouble = *failure;
	f->passes |= failure->passes;
	f->told = result != LOCK_TIMEOUT;
}

/* Something has come by cancel_fd. False: that ends it. */
static bool handle_cancel(struct front *f)
{
	int signal = take_signal(f);
	struct failure failure;

	if (signal != 0) {
		end_by_signal(f, signal);
		return false;
	}
	if (!f->ward->ops->is_gone || !f->ward->ops->is_gone(f->ward->own, &failure))
		return true;
	outcome_fail(f->outcome, &failure);
	withdraw(f, CANCEL_LIMIT);
	return false;
}

/* Before the next try to reach the server. That may fail at once, again and again, and would never
 * come to look at the signals itself. */
static bool pause_for_retry(struct front *f)
{
	struct pollfd cancel = {.fd = f->cancel_fd, .events = POLLIN};

	notify_unreached(&f->notify, f->trouble.text);
	return poll(&cancel, 1, RETRY_LEAST + (int)clock_jitter(RETRY_MORE)) <= 0 ||
	       handle_cancel(f);
}

/* Whether to go on after a step that did not succeed; else the outcome is set. */
static bool may_go_on(struct front *f, enum lock_result result, const struct failure *failure)
{
	record_trouble(f, result, failure);
	if (result == LOCK_FAILED && f->answered && may_mend(f, failure))
		contact_failed(&f->contact, failure);
	if (result == LOCK_CANCELLED)
		return handle_cancel(f);
	if (result == LOCK_ALREADY)
		f->outcome->kind = OUTCOME_ALREADY;
	else if (result == LOCK_UNREPLICATED || (result == LOCK_FAILED && !may_mend(f, failure)))
		outcome_fail(f->outcome, failure);
	else if (is_late(f) || (!f->answered && clock_now() >= patience_end(f)))
		record_end_of_time(f);
	else
		return result != LOCK_FAILED || pause_for_retry(f);
	withdraw(f, result == LOCK_ALREADY ? CANCEL_LIMIT : LATE_LIMIT);
	return false;
}

static void fail_to_fork(struct front *f)
{
	struct failure failure;

	failure_set(&failure, EXIT_SYSTEM, "cannot fork: %s", strerror(errno));
	outcome_fail(f->outcome, &failure);
	withdraw(f, LATE_LIMIT);
}

/* If something is held while more is asked for, a guardian has to know of it. False: there can be
 * none, and the outcome is set. */
static bool guard(struct front *f)
{
	struct guardian *guardian = &f->watch.guardian;

	if (!lock_needs_guardian(f->lock) && !process_has_ended(guardian->fd))
		return true;
	if (guardian_start(guardian, f->lock))
		return true;
	fail_to_fork(f);
	return false;
}

/* If the server cannot be asked, there is no turn to wait for either: what it answered before may
 * have been said by a server that has forgotten us since. */
static enum lock_result ask(struct front *f, struct failure *failure)
{
	enum lock_result result = lock_ask(f->lock, deadline(f), failure);

	if (result == LOCK_GRANTED || lock_may_be_asked(f->lock))
		f->outstanding = true;
	if (result != LOCK_GRANTED)
		f->lease->answer.result = result;
	return result;
}

static bool start_keeper(struct front *f, struct keeper_task *order)
{
	const struct front_task *task = f->task;

	*order = (struct keeper_task){
		.run = task,
		.contact = f->contact,
		.answer_until = patience_end(f),
		.answer_least = step_least(f),
		.notifies = f->notify.wanted,
		.nested = task->nesting->tokens[0] != '\0',
	};
	if (keeper_watch_start(&f->watch, order)) {
		lock_share(f->lock);
		return true;
	}
	fail_to_fork(f);
	return false;
}

/* Of -w; what is over is less than nothing. */
static nanos time_left(const struct front *f)
{
	return clock_after(f->task->started, f->task->wait) - clock_now();
}

/* The request was refused, or came too late. */
static void record_denial(struct front *f)
{
	const struct lock_answer *answer = &f->lease->answer;

	if (answer->result == LOCK_BUSY || answer->result == LOCK_ALREADY ||
		answer->result == LOCK_UNREPLICATED) {
		f->answered = true;
		contact_made(&f->contact);
		f->outcome->answer = *answer;
		f->outcome->answered_at = clock_now();
		handoff_see_to(f->lock);
	}
}

/* To look for a dlock around this one takes a tenth of a run's time on the processor, and where
 * many waiters take turns their handoffs are short of just that. So one that waits looks only after
 * a while, with time left to ask again. A wait that could not go on is not cut short for it: then
 * it looks before. */
static void plan_look(struct front *f)
{
	if (f->task->wait == 0 || f->look_at == NANOS_NEVER)
		return;
	if (!lock_wait_goes_on(f->lock))
		f->look_at = 0;
	else if (f->look_at == 0)
		f->look_at = clock_now() + number_least(SHORT_WAIT, time_left(f) / 2);
}

/* Whether the holder may be a dlock around this one that our environment did not tell of. */
static bool found_outer(struct front *f)
{
	if (f->lease->answer.result != LOCK_BUSY || clock_now() < f->look_at)
		return false;
	f->look_at = NANOS_NEVER;
	return nesting_learn(f->task->nesting, f->task->self, &f->outcome->answer);
}

/* Whether the answer is there already and says busy: then no keeper is forked in vain. On a busy
 * machine the server may stand in line for our processor. At the first request nothing is known of
 * it yet, so it goes first. That takes no longer than one of our own slices, which is little if
 * they are short. */
static bool is_busy_at_once(const struct front *f)
{
	if (!f->answered && f->task->caller_state->slice != 0 && !lock_answers_at_once(f->lock))
		sched_yield();
	return lock_is_busy(f->lock);
}

/* After a denial. True: the outcome is still open. */
static bool goes_on(struct front *f)
{
	record_denial(f);
	plan_look(f);
	if (found_outer(f))
		return f->try(f);
	return may_go_on(f, f->lease->answer.result, &f->lease->answer.failure);
}

/* One request, from asking to COMMAND's end. True: it was denied, and the outcome is still open. */
static bool try_once(struct front *f)
{
	struct failure failure = {0};
	struct keeper_task order;
	int signal;
	enum lock_result result;

	if (!guard(f))
		return false;
	result = ask(f, &failure);
	if (result != LOCK_GRANTED)
		return may_go_on(f, result, &failure);
	if (is_busy_at_once(f)) {
		lock_answer(f->lock, deadline(f), &f->lease->answer);
		return goes_on(f);
	}
	if (!start_keeper(f, &order))
		return false;

	switch (keeper_watch_run(&f->watch, &order, &signal)) {
	case KEEPER_WATCH_CANCELLED:
		end_by_signal(f, signal);
		return false;
	case KEEPER_WATCH_LATE:
		/* What the keeper had read so far, before it was killed. */
		failure = f->lease->answer.failure;
		f->lease->answer.result = LOCK_TIMEOUT;
		return may_go_on(f, LOCK_TIMEOUT, &failure);
	case KEEPER_WATCH_DIED:
		guardian_end(&f->watch.guardian); /* or it would pass for one of the tree */
		front_take_over(f, &order);
		return false;
	case KEEPER_WATCH_OVER:
		break;
	}
	if (atomic_load(&f->lease->phase) == LEASE_DENIED) {
		lock_adopt_answer(f->lock, &f->lease->answer);
		return goes_on(f);
	}
	if (atomic_load(&f->lease->phase) == LEASE_RELEASE_SENT)
		front_finish_release(f);
	/* Meanwhile the last of the tree may have ended, and the keeper with it, as it should. */
	if (atomic_load(&f->lease->phase) == LEASE_LINGERING && f->ward->ops->leave_behind &&
		!f->ward->ops->leave_behind(&f->watch, &order) &&
		atomic_load(&f->lease->phase) != LEASE_ENDED) {
		front_take_over(f, &order);
		return false;
	}
	front_conclude(f);
	return false;
}

/* The settle time is over: from here on all is as for a -n that comes only now. */
static void begin_anew(struct front *f)
{
	f->began = clock_now();
	f->answered = f->told = false;
	f->trouble = no_answer;
}

static bool wait_for_turn(struct front *f)
{
	struct deadline limit = deadline(f);
	struct failure failure = {0};
	enum lock_result result;

	if (f->lease->answer.result != LOCK_BUSY)
		return true;
	if (f->task->wait == 0)
		limit.until = NANOS_NEVER;
	limit.cancel_fd = wait_line_begin(&f->line, &f->outcome->answer, f->look_at);
	if (limit.cancel_fd == f->cancel_fd && f->look_at != NANOS_NEVER) /* nothing will wake us */
		f->look_at = 0;
	do {
		result = found_outer(f) ? LOCK_GRANTED : lock_wait(f->lock, limit, &failure);
	} while (result == LOCK_CANCELLED && wait_line_goes_on(&f->line));
	wait_line_end(&f->line);
	if (result == LOCK_GRANTED && f->task->wait == 0)
		begin_anew(f);
	return result == LOCK_GRANTED || may_go_on(f, result, &failure);
}

/* --- Without a COMMAND ------------------------------------------------------------------------ */

/* The lock is ours: either the caller learns of it, or it is released. */
static bool deliver(struct front *f)
{
	const struct front_task *task = f->task;
	struct lock_answer *answer = &f->lease->answer;
	struct deadline limit = {
		.until = lease_valid_until(&f->lease->terms, answer->asked_at),
		.cancel_fd = f->watch.ending_fd,
	};
	enum lock_result result = LOCK_TIMEOUT; /* granted so late that it is as good as expired */

	f->answered = true;
	contact_made(&f->contact);
	f->outcome->answer = *answer;
	holder_say_grant(answer);
	if (clock_now() < limit.until)
		result = task->deliver(f->lock, answer, limit);
	else
		failure_set(&answer->failure, EXIT_UNREACHABLE, LEASE_TOO_LATE);
	if (result == LOCK_GRANTED) {
		f->granted = true;
		f->left = false;
		f->outcome->waited = answer->granted_at - task->started;
		f->outcome->kind = OUTCOME_ACQUIRED;
		handoff_see_to(f->lock);
		return false;
	}
	f->delivered = true;
	withdraw(f, LEASE_RELEASE_LIMIT);
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
	lock_answer(f->lock, deadline(f), answer);
	if (answer->result == LOCK_GRANTED)
		return deliver(f);
	if (answer->result == LOCK_WITHIN) {
		answer->result = LOCK_FAILED;
		failure_set(&answer->failure, EXIT_DEADLOCK,
			"waiting would deadlock: a dlock around this one holds it, and a detached "
			"lock is never inside another");
	}
	return goes_on(f);
}

static int open_cancel(const struct ward *ward, int ending_fd)
{
	return ward->ops->cancel_fd ? ward->ops->cancel_fd(ward->own, ending_fd) : ending_fd;
}

static void go_through(const struct front_task *task, const struct ward *ward,
	bool (*try)(struct front *f), struct outcome *outcome)
{
	struct front f = {.task = task,
		.ward = ward,
		.try = try,
		.lock = task->lock,
		.outcome = outcome,
		.began = task->started,
		.trouble = no_answer};
	struct failure failure;

	if (!keeper_watch_open(&f.watch, task->caller_state) ||
		(!task->deliver && !tree_open(&f.watch.tree)) ||
		(f.cancel_fd = open_cancel(ward, f.watch.ending_fd)) < 0) {
		failure_set(&failure, EXIT_SYSTEM, "%s", strerror(errno));
		outcome_fail(outcome, &failure);
		return;
	}
	f.lease = f.watch.lease;
	f.lease->terms = task->terms;
	notify_open(&f.notify, task->name, task->notify_ready);
	f.watch.notify = &f.notify;
	wait_line_open(&f.line, task->name, f.cancel_fd, &f.notify);
	while (try(&f) && wait_for_turn(&f))
		continue;
	if (f.left)
		leave_behind(&f);
	else
		guardian_end(&f.watch.guardian);
	if (!f.granted)
		outcome->waited = clock_now() - task->started;
	notify_end(&f.notify, outcome);
}

void front_run(const struct front_task *task, struct outcome *outcome)
{
	go_through(task, &task->ward, try_once, outcome);
}

void front_acquire(const struct front_task *task, struct outcome *outcome)
{
	static const struct ward nobody = {.ops = &detached_ward};

	go_through(task, &nobody, try_detached, outcome);
}
