/* Taking the lock: whether it is ours to have is decided here, inside the record's mutex. */
#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "file/file_lock.h"
#include "lock/reentrance.h"

#define CLAIM      NANOS_PER_SEC      /* for the first to take what is free */
#define LOOK_AFTER (5 * NANOS_PER_MS) /* an expiry, so that it is surely past */

/* What the record says to one that wants the lock. */
struct survey {
	int ahead;  /* the waiter right before us; -1: there is none */
	int before; /* the one before that; -1 */
	int rank;   /* how many are before us */
	int behind; /* how many are after us */
	int holder; /* one that is in the way; -1 */
};

static int64_t order_of(const struct slot *waiter)
{
	return record_order(waiter->ticket, waiter->priority);
}

/* --- What is in the way ----------------------------------------------------------------------- */

static bool has_obstacle(const struct file_lock *f, int kind)
{
	for (int i = 0; i < f->wait.count; i++)
		if ((int)f->wait.obstacles[i].kind == kind)
			return true;
	return false;
}

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

static void add_obstacle(struct file_lock *f, int kind, int slot, enum record_byte byte)
{
	struct file_wait *wait = &f->wait;

	if (kind != OBSTACLE_BYTE && has_obstacle(f, kind))
		return;
	if (wait->count < OBSTACLES)
		wait->obstacles[wait->count++] = (struct obstacle){.kind = kind,
			.serial = slot < 0 ? 0 : f->record.slots[slot].serial,
			.byte = byte};
}

/* The place of one ahead of us: the waiter's own thread waits for it, unless it does for flock. */
static void add_ahead(struct file_lock *f, int slot)
{
	struct file_wait *wait = &f->wait;
	struct obstacle *first = &wait->obstacles[0], *last;

	wait->count -= wait->count == OBSTACLES;
	add_obstacle(f, OBSTACLE_BYTE, slot, BYTE_QUEUE);
	last = &wait->obstacles[wait->count - 1];
	if (first->kind != OBSTACLE_FLOCK) {
		const struct obstacle ahead = *last;

		*last = *first;
		*first = ahead;
	}
}

static void wait_for_nothing(struct file_lock *f)
{
	f->wait.count = 0;
	f->wait.look_at = NANOS_NEVER;
}

/* Whether a holder keeps us out. */
static bool is_in_the_way(struct file_lock *f, int i, int *sharers)
{
	const struct slot *holder = &f->record.slots[i];
	const struct lock_request *request = &f->request;

	if (holder->broken || request->mode == LOCK_EXCLUSIVE || holder->mode != (int)request->mode)
		return true;
	return request->mode == LOCK_PERMITS && ++*sharers >= request->permits;
}

/* How it is waited for. Not by flock(2), though it is in the way there: one that is stopped at the
 * moment in which it gets that would keep it. Of holders that all must go one is enough. */
static void wait_for_holder(struct file_lock *f, int i, nanos until)
{
	if (until != NANOS_NEVER) {
		add_obstacle(f, OBSTACLE_BELL, -1, 0);
		if (until + LOOK_AFTER < f->wait.look_at)
			f->wait.look_at = until + LOOK_AFTER;
	} else if (f->request.mode == LOCK_PERMITS || !has_obstacle(f, OBSTACLE_BYTE)) {
		add_obstacle(f, OBSTACLE_BYTE, i, BYTE_HOLDER);
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
		if (until == 0 || record_is_inside(record, i))
			continue;
		if (is_in_the_way(f, i, &sharers))
			survey->holder = i;
		/* Of permits any may come free first. */
		if (survey->holder == i || f->request.mode == LOCK_PERMITS)
			wait_for_holder(f, i, until);
	}
	if (survey->holder < 0)
		wait_for_nothing(f);
}

static bool is_later(const struct record *record, int one, int other)
{
	return other < 0 || order_of(&record->slots[one]) > order_of(&record->slots[other]);
}

/* Those that have died are passed over, and their slots free. */
static void survey_waiters(struct file_lock *f, int64_t order, struct survey *survey)
{
	struct record *record = &f->record;

	for (;;) {
		survey->ahead = survey->before = -1;
		survey->rank = survey->behind = 0;
		for (int i = 0; i < record->head.count; i++) {
			const struct slot *slot = &record->slots[i];

			if (slot->state != SLOT_WAITING || i == record->own ||
				(slot->passed && record_lives(record, i, BYTE_QUEUE)))
				continue;
			if (order_of(slot) > order) {
				survey->behind++;
				continue;
			}
			survey->rank++;
			if (is_later(record, i, survey->ahead)) {
				survey->before = survey->ahead;
				survey->ahead = i;
			} else if (is_later(record, i, survey->before)) {
				survey->before = i;
			}
		}
		if (survey->ahead < 0 || record_lives(record, survey->ahead, BYTE_QUEUE))
			return;
		record->slots[survey->ahead].state = SLOT_FREE;
	}
}

/* --- The answers ------------------------------------------------------------------------------ */

static bool fail(struct lock_answer *answer)
{
	answer->result = LOCK_FAILED;
	return false;
}

static bool write_text(struct file_lock *f, struct lock_answer *answer)
{
	return record_write_text(&f->record, f->lock.token, &f->request.self, f->request.held,
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
				 ? clock_now() + request->at_least_ms * NANOS_PER_MS
				 : 0,
		.hold = request->hold};
	return file_own(f);
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

	if (!own)
		return;
	if (record->head.fence < (uint64_t)own->since)
		record->head.fence = (uint64_t)own->since - 1;
	own->fence = ++record->head.fence;
	record->head.granted++;
	answer->ttl_ms = LOCK_NO_TTL;
	if (request->detached) {
		own->detached = true;
		own->ttl_ms = answer->ttl_ms = request->ttl_ms > request->at_least_ms
						       ? request->ttl_ms
						       : request->at_least_ms;
		own->until = clock_now() + own->ttl_ms * NANOS_PER_MS;
		own->ttl_ms = request->ttl_ms;
	}
	answer->result = LOCK_GRANTED;
	answer->fence = own->fence;
	answer->granted_at = clock_now();
	if (request->detached) {
		record_drop(record, true); /* no process holds it from here on */
		file_unlock(f);
	} else if (waited && (request->mode != LOCK_EXCLUSIVE || is_anybody_in_line(record))) {
		/* Those behind may come in too, or are to leave the line of flock. Else they wait
		 * for the end of an exclusive lock, and need not be woken before. */
		record_drop(record, false);
	}
}

static bool answer_already(struct file_lock *f, struct lock_answer *answer)
{
	const struct lock_request *request = &f->request;
	int64_t now = clock_wall_us(), when = f->record.head.success;
	/* One that lies ahead is of a clock that was set back: it counts no longer than asked for.
	 */
	int64_t ago = now > when ? now - when : when - now;

	if (request->cooldown_ms == 0 || when == 0 || ago >= request->cooldown_ms * 1000)
		when = request->once ? record_once(&f->folder, f->file, request->once, 0,
					       &answer->failure)
				     : 0;
	if (when == 0)
		return false;
	file_step_aside(f);
	answer->result = when < 0 ? LOCK_FAILED : LOCK_ALREADY;
	answer->done_ms = now > when ? (now - when) / 1000 : 0;
	return true;
}

/* --- Inside another holder -------------------------------------------------------------------- */

static bool read_holder(const void *context, int i, struct reentrance_holder *holder)
{
	const struct record *record = context;
	const struct slot *slot = &record->slots[i];
	nanos until = record_holds_until(record, i);
	struct slot_text text;

	if (until == 0)
		return false;
	record_read_text(record, i, &text, &holder->owner);
	strcpy(holder->token, text.token);
	holder->mode = (enum lock_mode)slot->mode;
	holder->id = slot->fence;
	holder->around = slot->around;
	holder->lives = until == NANOS_NEVER;
	holder->over = slot->state == SLOT_OVER;
	holder->detached = slot->detached;
	holder->hold = slot->hold;
	return true;
}

static bool answer_within(struct file_lock *f, struct lock_answer *answer)
{
	int outer =
		reentrance_find(&f->request, f->record.head.count, read_holder, &f->record, answer);
	struct slot around, *own;

	if (outer < 0)
		return false;
	file_step_aside(f);
	around = f->record.slots[outer];
	answer->ttl_ms = LOCK_NO_TTL;
	answer->fence = around.fence;
	answer->granted_at = clock_now();
	if (answer->result != LOCK_WITHIN || answer->covered || f->request.detached)
		return true;
	own = begin_holding(f, answer);
	if (!own)
		return true;
	own->mode = around.mode;
	own->permits = around.permits;
	own->fence = own->around = around.fence;
	own->least = 0;
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
	struct failure unheard;

	file_unlock(f);
	answer->result = LOCK_BUSY;
	answer->fence = f->record.head.fence;
	answer->rank = f->request.queues ? survey->rank : -1;
	name_holder(f, survey, answer);
	if (!f->request.queues) {
		f->record.head.contended++;
		return;
	}
	if (has_obstacle(f, OBSTACLE_BELL) && !listen_for_bell(f, &answer->failure)) {
		fail(answer);
		return;
	}
	if (!queue(f, ticket, answer))
		return;
	file_own(f)->in_line = has_obstacle(f, OBSTACLE_FLOCK);
	/* Of the dlocks around it may have learnt since. */
	if ((first || (f->request.held && f->request.held[0] != '\0')) && !write_text(f, answer))
		return;
	/* The waiter that was first so far now has to wait for us. */
	if (first && survey->rank == 0 && survey->behind > 0)
		folder_ring(&f->folder, f->file, FOLDER_BELL, &unheard);
}

static bool try_flock(struct file_lock *f)
{
	int mode = f->request.mode == LOCK_EXCLUSIVE ? LOCK_EX : LOCK_SH;

	f->flocked = f->flocked || flock(f->fd, mode | LOCK_NB) == 0;
	return f->flocked;
}

/* The first may have been stopped (Ctrl-Z). If the second gets the flock, it gives that up again,
 * and the first a while to take it; then it goes ahead. The first is at its place again once it
 * asks. */
static bool is_passed_over(struct file_lock *f, int ahead)
{
	struct file_wait *wait = &f->wait;
	struct slot *first = &f->record.slots[ahead];
	bool again = wait->claimed_by == first->ticket;

	if (again && clock_now() >= wait->claim_until) {
		wait->claimed_by = 0;
		first->passed = try_flock(f);
		return first->passed;
	}
	if (!again && f->flocked) {
		wait->claimed_by = first->ticket;
		wait->claim_until = clock_now() + CLAIM;
	}
	if (wait->claimed_by == first->ticket)
		wait->look_at = wait->claim_until;
	else
		add_obstacle(f, OBSTACLE_FLOCK, -1, 0);
	return false;
}

/* Whether another one is to have it first: then that one's place is waited for. */
static bool is_behind(struct file_lock *f, const struct survey *survey)
{
	if (survey->ahead < 0)
		return false;
	if (survey->rank > 1) {
		wait_for_nothing(f);
		/* Once that one has left we may be the second. */
		add_obstacle(f, OBSTACLE_BYTE, survey->before, BYTE_QUEUE);
	} else if (f->wait.count == 0 && is_passed_over(f, survey->ahead)) {
		return false;
	}
	add_ahead(f, survey->ahead);
	return true;
}

static void decide(struct file_lock *f, struct lock_answer *answer)
{
	struct record *record = &f->record;
	const struct lock_request *request = &f->request;
	int64_t now = clock_wall_us(),
		ticket = now > record->head.ticket ? now : record->head.ticket + 1;
	int64_t order = record_order(ticket, request->priority);
	struct survey survey;

	if (answer_already(f, answer) || answer_within(f, answer))
		return;
	if (record->own >= 0) {
		order = order_of(file_own(f));
		file_own(f)->passed = false;
	}
	wait_for_nothing(f);
	survey_waiters(f, request->queues ? order : INT64_MAX, &survey);
	survey_holders(f, &survey);
	if (!is_behind(f, &survey) && f->wait.count == 0) {
		if (try_flock(f)) {
			grant(f, answer);
			return;
		}
		add_obstacle(f, OBSTACLE_FLOCK, -1, 0);
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
	file_change(f, deadline, take, NULL, answer);
	if (answer->result == LOCK_FAILED)
		file_forget(f); /* it is not on record, perhaps */
}
