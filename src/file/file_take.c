/* Taking the lock: whether it is ours to have is decided here, inside the record's mutex. */
#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/number.h"
#include "file/file_lock.h"

#define CLAIM      NANOS_PER_SEC      /* for each of those ahead, to take what is free */
#define LOOK_AFTER (5 * NANOS_PER_MS) /* an expiry, so that it is surely past */

/* The record, as a dlock reads it that wants the lock. */
struct survey {
	int ahead;  /* the waiter right before us; -1: there is none */
	int rank;   /* how many are before us */
	int holder; /* a holder that is in the way; -1 */
	/* An obstacle of a lock like this keeps out us, or a waiter before us. */
	enum lock_mode mode;
	int permits;
};

static int64_t order_of(const struct slot *waiter)
{
	return record_order(waiter->ticket, waiter->priority);
}

/* --- What is in the way ----------------------------------------------------------------------- */

/* Listens anew, inside the mutex: what has rung before was for what is on record by now. Opened
 * after it, the pipe could miss the only ring. */
static bool listen_for_bell(struct file_lock *f, struct failure *failure)
{
	bool first = f->wait.bell_fd < 0; /* else it is there, unless the folder is being removed */
	int fd = folder_open_part(&f->folder, f->file, FOLDER_BELL, O_RDONLY, first, failure);

	if (fd < 0)
		return false;
	if (!first)
		close(f->wait.bell_fd);
	f->wait.bell_fd = fd;
	return true;
}

static void wait_for_flock(struct file_lock *f, const struct survey *survey)
{
	f->wait.flock = true;
	f->wait.mode = survey->mode;
	f->wait.bell = true; /* rung if a dlock gets it: all are to leave the line */
}

static void wait_for_nothing(struct file_lock *f)
{
	struct file_wait *wait = &f->wait;

	wait->holder_count = 0;
	wait->ahead = 0;
	wait->any = wait->partial = wait->flock = wait->bell = false;
	wait->look_at = wait->free_at = NANOS_NEVER;
}

/* Whether a holder keeps us out, or one that is before us. */
static bool is_in_the_way(const struct slot *holder, const struct survey *survey, int *sharers)
{
	if (holder->broken || survey->mode == LOCK_EXCLUSIVE || holder->mode != (int)survey->mode)
		return true;
	return survey->mode == LOCK_PERMITS && ++*sharers >= survey->permits;
}

/* How it is waited for. Not by flock(2), though it is in the way there: one that is stopped at the
 * moment in which it gets that would keep it. */
static void wait_for_holder(struct file_lock *f, int i, nanos until)
{
	struct file_wait *wait = &f->wait;

	if (until != NANOS_NEVER) {
		wait->bell = true;
		wait->look_at = number_least(wait->look_at, until + wait->claim + LOOK_AFTER);
		wait->free_at = number_least(wait->free_at, until);
	} else if (wait->holder_count < WATCHED) {
		wait->holders[wait->holder_count++] = f->record.slots[i].serial;
	} else {
		wait->partial = true;
	}
}

/* Slots of holders that keep the lock no longer are free. */
static void survey_holders(struct file_lock *f, struct survey *survey)
{
	struct record *record = &f->record;
	int sharers = 0;

	survey->holder = -1;
	for (int i = 0; i < record->head.count; i++) {
		nanos until = i == record->own ? 0 : record_holds_until(record, i);

		if (until == 0 && i != record->own && record->slots[i].state != SLOT_WAITING)
			record->slots[i].state = SLOT_FREE;
		if (until == 0)
			continue;
		if (is_in_the_way(&record->slots[i], survey, &sharers))
			survey->holder = i;
		/* Any of several permits may come free first. */
		if (survey->holder == i || survey->mode == LOCK_PERMITS)
			wait_for_holder(f, i, until);
	}
	f->wait.any = survey->mode == LOCK_PERMITS;
	if (survey->holder < 0)
		wait_for_nothing(f);
}

/* A waiter before us must not be overtaken: what keeps it out keeps us out. All waiters would
 * be asked whether they live, were it not for those that want nothing else. */
static void survey_wish(const struct record *record, int i, struct survey *survey)
{
	const struct slot *waiter = &record->slots[i];
	bool other = waiter->mode != (int)survey->mode;

	if (survey->mode == LOCK_EXCLUSIVE || (!other && waiter->permits >= survey->permits) ||
		!record_lives(record, i, BYTE_QUEUE))
		return;
	if (other)
		survey->mode = LOCK_EXCLUSIVE;
	survey->permits = waiter->permits;
}

static void survey_waiter(const struct record *record, int i, int64_t order, struct survey *survey)
{
	const struct slot *slot = &record->slots[i];

	if (slot->state != SLOT_WAITING || i == record->own ||
		(slot->passed && record_lives(record, i, BYTE_QUEUE)))
		return;
	if (order_of(slot) > order)
		return;
	survey->rank++;
	survey_wish(record, i, survey);
	if (survey->ahead < 0 || order_of(slot) > order_of(&record->slots[survey->ahead]))
		survey->ahead = i;
}

/* The slot of a waiter that has died is free. */
static bool was_dead(struct record *record, int i)
{
	if (i < 0 || record_lives(record, i, BYTE_QUEUE))
		return false;
	record->slots[i].state = SLOT_FREE;
	return true;
}

/* Dead waiters are passed over. */
static void survey_waiters(struct file_lock *f, int64_t order, struct survey *survey)
{
	struct record *record = &f->record;

	do {
		*survey = (struct survey){
			.ahead = -1, .mode = f->request.mode, .permits = f->request.permits};
		for (int i = 0; i < record->head.count; i++)
			survey_waiter(record, i, order, survey);
	} while (was_dead(record, survey->ahead));
	f->wait.claim = survey->rank * CLAIM;
}

/* --- The answers ------------------------------------------------------------------------------ */

static bool fail(struct lock_answer *answer)
{
	answer->result = LOCK_FAILED;
	return false;
}

static bool write_text(struct file_lock *f, struct lock_answer *answer)
{
	return record_write_text(&f->record, f->lock.token, f->request.self, f->request.held,
		       &answer->failure) ||
	       fail(answer);
}

/* Our slot as a holder's, in which only what differs is still to be written; NULL with the answer.
 * Its keeper listens for --force. */
static struct slot *begin_holding(struct file_lock *f, struct lock_answer *answer)
{
	struct record *record = &f->record;
	const struct lock_request *request = &f->request;
	int64_t now = clock_wall_us();

	if (!request->detached && f->ended_fd < 0)
		f->ended_fd = folder_open_part(
			&f->folder, f->file, FOLDER_ENDED, O_RDWR, true, &answer->failure);
	if (record->own >= 0)
		record->head.waited_us += now > file_own(f)->ticket ? now - file_own(f)->ticket : 0;
	if ((!request->detached && f->ended_fd < 0) ||
		(record->own < 0 && !(record_claim(record, false, &answer->failure) &&
					    write_text(f, answer)))) {
		fail(answer);
		return NULL;
	}
	*file_own(f) = (struct slot){.boot = record->boot,
		.serial = record->serial,
		.state = SLOT_HOLDING,
		.mode = request->mode,
		.permits = request->permits,
		.since = now,
		.least = request->at_least_ms > 0
				 ? record_moment(record,
					   clock_now() + request->at_least_ms * NANOS_PER_MS)
				 : 0};
	return file_own(f);
}

/* Which slot of the permits no other holder has: the lowest. */
static int find_seat(const struct record *record)
{
	int seat = 0;

	for (int i = 0; i < record->head.count; i++) {
		const struct slot *slot = &record->slots[i];

		if (i == record->own || slot->mode != LOCK_PERMITS || slot->seat != seat ||
			record_holds_until(record, i) == 0)
			continue;
		seat++;
		i = -1; /* the slots before may have that seat */
	}
	return seat;
}

static bool is_anybody_in_line(const struct record *record)
{
	for (int i = 0; i < record->head.count; i++)
		if (record->slots[i].state == SLOT_WAITING && record->slots[i].in_line)
			return true;
	return false;
}

static void grant(struct file_lock *f, struct lock_answer *answer)
{
	struct record *record = &f->record;
	const struct lock_request *request = &f->request;
	bool waited = record->own >= 0;
	struct slot *own = begin_holding(f, answer);
	struct failure unheard;

	if (!own)
		return;
	if (record->head.fence < (uint64_t)own->since)
		record->head.fence = (uint64_t)own->since - 1;
	own->fence = ++record->head.fence;
	record->head.granted++;
	answer->has_slot = request->mode == LOCK_PERMITS;
	if (answer->has_slot)
		answer->slot = own->seat = find_seat(record);
	answer->ttl_ms = LOCK_NO_TTL;
	if (request->detached) {
		own->detached = true;
		own->ttl_ms = request->ttl_ms;
		answer->ttl_ms = lock_ttl_ms(request, 0);
		own->until = record_moment(record, clock_now() + answer->ttl_ms * NANOS_PER_MS);
	}
	answer->result = LOCK_GRANTED;
	answer->fence = own->fence;
	answer->granted_at = clock_now();
	if (request->detached) {
		record_drop(record, true); /* no process holds it from here on */
		file_unlock(f);
	} else if (waited && request->mode != LOCK_EXCLUSIVE) {
		/* The waiters behind may come in too. Else they wait for the end of an exclusive
		 * lock, and need not be woken before. */
		record_drop(record, false);
	}
	if (is_anybody_in_line(record))
		folder_ring(&f->folder, f->file, FOLDER_BELL, &unheard);
}

static bool answer_cooldown(struct file_lock *f, int64_t now, struct lock_answer *answer)
{
	int64_t window = lock_window_ms(&f->lock, &f->request), began = f->record.head.success;
	/* A success that lies ahead is of a clock that was set back: it counts no longer than asked
	 * for. */
	int64_t ago = now > began ? now - began : began - now;

	if (began == 0 || ago >= window * 1000)
		return false;
	record_read_run(&f->record, true, &answer->done);
	file_step_aside(f);
	answer->result = LOCK_ALREADY;
	return true;
}

static bool answer_already(struct file_lock *f, struct lock_answer *answer)
{
	const struct lock_request *request = &f->request;
	int64_t when =
		request->once ? record_once(&f->folder, f->file, request->once, 0, &answer->failure)
			      : 0;
	int64_t now = clock_wall_us();

	if (answer_cooldown(f, now, answer))
		return true;
	if (when == 0)
		return false;
	file_step_aside(f);
	answer->result = when < 0 ? LOCK_FAILED : LOCK_ALREADY;
	answer->done.began_us = when;
	run_date(&answer->done, now);
	return true;
}

/* --- Busy ------------------------------------------------------------------------------------- */

static bool queue(struct file_lock *f, int64_t ticket, struct lock_answer *answer)
{
	struct record *record = &f->record;

	if (record->own >= 0)
		return true;
	if (!record_claim(record, true, &answer->failure))
		return fail(answer);
	*file_own(f) = (struct slot){.boot = record->boot,
		.serial = record->serial,
		.state = SLOT_WAITING,
		.mode = f->request.mode,
		.permits = f->request.permits,
		.priority = f->request.priority,
		.asks = f->request.cooldown_ms > 0 || f->request.once,
		.ticket = ticket};
	record->head.contended++;
	record->head.ticket = ticket;
	return true;
}

/* Names a holder, or the first waiter. If there is neither, another program has it by flock. */
static void name_holder(
	struct file_lock *f, const struct survey *survey, struct lock_answer *answer)
{
	answer->free_in_ms = -1;
	answer->look_at = f->wait.look_at;
	if (survey->holder >= 0) {
		file_name_holder(f, survey->holder, answer);
	} else {
		if (survey->ahead < 0)
			answer->foreign = "another program (flock)";
		answer->ttl_ms = LOCK_NO_TTL;
	}
}

static void answer_busy(struct file_lock *f, const struct survey *survey, int64_t ticket,
	struct lock_answer *answer)
{
	bool first = f->record.own < 0;

	file_unlock(f);
	answer->result = LOCK_BUSY;
	answer->fence = f->record.head.fence;
	answer->rank = f->request.queues ? survey->rank : -1;
	name_holder(f, survey, answer);
	if (!f->request.queues) {
		f->record.head.contended++;
		return;
	}
	if (f->request.cooldown_ms > 0 || f->request.once)
		f->wait.bell = true;
	if (f->wait.bell && !listen_for_bell(f, &answer->failure)) {
		fail(answer);
		return;
	}
	if (!queue(f, ticket, answer))
		return;
	file_own(f)->in_line = f->wait.flock;
	/* If it asks for several locks it may hold more by now. */
	if (first || (f->request.held && f->request.held[0] != '\0'))
		write_text(f, answer);
}

static bool try_flock(struct file_lock *f, enum lock_mode mode)
{
	int how = mode == LOCK_EXCLUSIVE ? LOCK_EX : LOCK_SH;

	f->flocked = flock(f->fd, how | LOCK_NB) == 0;
	return f->flocked;
}

/* From when on nothing was in the way of those ahead, if nothing is now: nobody was granted the
 * lock since. A fencing token is no less than the clock at its grant. */
static nanos free_since(struct file_lock *f)
{
	uint64_t fence = f->record.head.fence;
	nanos now = clock_now(), since = f->wait.free_at;
	bool ungranted =
		since < now &&
		(fence == f->wait.fence ||
			fence < (uint64_t)(clock_wall_us() - (now - since) / NANOS_PER_US));

	f->wait.fence = fence;
	return ungranted ? since : now;
}

static void pass_over(struct record *record, int64_t order)
{
	for (int i = 0; i < record->head.count; i++) {
		struct slot *slot = &record->slots[i];

		if (slot->state == SLOT_WAITING && i != record->own && order_of(slot) <= order)
			slot->passed = true;
	}
}

/* The waiters ahead may have been stopped (Ctrl-Z). Each has a while to take what it could have;
 * then we go ahead. Whether flock keeps one of them out shows if we get what would be enough for
 * all; that is given up again. A waiter that was passed over is at its place again once it asks. */
static bool may_pass(struct file_lock *f, const struct survey *survey, int64_t order, nanos since)
{
	struct file_wait *wait = &f->wait;

	if (!try_flock(f, survey->mode)) {
		wait_for_flock(f, survey);
		return false;
	}
	if (clock_now() >= since + wait->claim) {
		pass_over(&f->record, order);
		return true;
	}
	wait->free_at = since;
	wait->look_at = since + wait->claim;
	return false;
}

/* Whether another one is to have it first: then that one's place is waited for. */
static bool is_behind(struct file_lock *f, const struct survey *survey, int64_t order, nanos since)
{
	if (survey->ahead < 0 || (survey->holder < 0 && may_pass(f, survey, order, since)))
		return false;
	f->wait.ahead = f->record.slots[survey->ahead].serial;
	return true;
}

static void decide(struct file_lock *f, struct lock_answer *answer)
{
	struct record *record = &f->record;
	const struct lock_request *request = &f->request;
	int64_t now = clock_wall_us(),
		ticket = now > record->head.ticket ? now : record->head.ticket + 1;
	int64_t order = record_order(ticket, request->priority);
	nanos since = free_since(f);
	struct survey survey;

	if (answer_already(f, answer))
		return;
	if (record->own >= 0) {
		order = order_of(file_own(f));
		file_own(f)->passed = false;
	}
	wait_for_nothing(f);
	survey_waiters(f, request->queues ? order : INT64_MAX, &survey);
	survey_holders(f, &survey);
	if (!is_behind(f, &survey, order, since) && survey.holder < 0) {
		if (try_flock(f, request->mode)) {
			grant(f, answer);
			return;
		}
		wait_for_flock(f, &survey);
	}
	answer_busy(f, &survey, ticket, answer);
}

static void take(struct file_lock *f, const void *terms, struct lock_answer *answer)
{
	bool waited = f->record.own >= 0;

	(void)terms;
	if (waited && file_is_removed(f))
		fail(answer);
	else
		decide(f, answer);
	if (waited && answer->result == LOCK_FAILED && file_is_removed(f))
		failure_set(&answer->failure, EXIT_SYSTEM,
			"%s/%s was removed while dlock waited for it", f->folder.path, f->file);
	if (answer->result == LOCK_FAILED || answer->result == LOCK_ALREADY)
		file_step_aside(f);
}

void file_take(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	struct file_lock *f = (struct file_lock *)lock;

	answer->asked_at = clock_now();
	if (f->record.own < 0 && file_is_removed(f))
		file_close_all(f); /* and others are made */
	lock->asked = true;
	file_change(f, deadline, take, NULL, answer);
	if (answer->result == LOCK_FAILED)
		file_forget(f); /* the lock is not on record, perhaps */
}
