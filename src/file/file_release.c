/* Renewing a lock, giving it back, and breaking it. */
#include <bsd/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "file/file_lock.h"
#include "lock/token.h"

/* --- Renewing --------------------------------------------------------------------------------- */

/* The slot that our token is for; -1 with failure: there is none, and why. */
static int find_detached(struct file_lock *f, struct failure *failure)
{
	const struct record *record = &f->record;
	const char *reason = "not held with this token: it is wrong, or has expired";
	struct slot_text text;

	for (int i = 0; i < record->head.count; i++) {
		const struct slot *slot = &record->slots[i];

		if (slot->state == SLOT_WAITING)
			continue;
		record_read_text(record, i, &text, NULL);
		if (strcmp(text.token, f->lock.token) != 0)
			continue;
		if (slot->state == SLOT_HOLDING && slot->detached &&
			record_holds_until(record, i) != 0)
			return i;
		/* Another dlock may have cleared away since a slot that was broken, or has expired.
		 */
		if (slot->detached && slot->state != SLOT_HOLDING) {
			if (!slot->broken && slot->until > record_moment(&f->record, clock_now()))
				reason = "the lock was released with this token before";
		} else if (record_holds_until(record, i) != 0)
			reason = "the token is that of a holder that still runs and gives the lock "
				 "back itself; --force breaks it";
	}
	failure_set(failure, EXIT_BUSY, "%s", reason);
	return -1;
}

/* Inside the mutex: so it may ring before that is written of which it tells. */
static bool ring_bell(struct file_lock *f, struct failure *failure)
{
	return folder_ring(&f->folder, f->file, FOLDER_BELL, failure) != RING_FAILED;
}

static void renew_detached(struct file_lock *f, struct lock_answer *answer)
{
	int i = find_detached(f, &answer->failure);
	struct slot *slot = &f->record.slots[i];
	int64_t ttl_ms = f->request.ttl_ms;

	if (i < 0) {
		answer->result = LOCK_LOST;
		return;
	}
	if (ttl_ms == 0)
		ttl_ms = slot->ttl_ms;
	slot->until = record_moment(&f->record, clock_now() + ttl_ms * NANOS_PER_MS);
	if (slot->until < slot->least)
		slot->until = slot->least;
	answer->fence = slot->fence;
	answer->ttl_ms = ttl_ms;
	answer->result = ring_bell(f, &answer->failure) ? LOCK_GRANTED : LOCK_FAILED;
}

/* Once none is left for which it was rung, the pipe is to be silent. */
static void silence(struct file_lock *f)
{
	char bytes[64];

	for (int i = 0; i < f->record.head.count; i++)
		if (f->record.slots[i].broken && record_holds_until(&f->record, i) != 0)
			return;
	if (f->ended_fd >= 0)
		(void)!read(f->ended_fd, bytes, sizeof(bytes));
}

static void record_loss(struct file_lock *f, struct lock_answer *answer)
{
	answer->result = LOCK_LOST;
	f->record.head.lost += !f->loss_told;
	f->loss_told = true;
}

/* A holder that lives has the lock as long as it does, unless it was broken. Which process that is
 * may have changed. */
static void renew_own(struct file_lock *f, struct lock_answer *answer)
{
	const struct lock_request *request = &f->request;

	answer->fence = file_own(f)->fence;
	answer->ttl_ms = LOCK_NO_TTL;
	if (file_own(f)->broken)
		record_loss(f, answer);
	else
		silence(f);
	answer->flawed = !record_write_text(
		&f->record, f->lock.token, request->self, request->held, &answer->failure);
}

/* The slot that a dead process of ours had under our token, and its flock. */
static bool find_orphan(struct file_lock *f)
{
	struct record *record = &f->record;
	struct slot_text text;

	for (int i = 0; i < record->head.count && record->own < 0; i++) {
		if (record->slots[i].state == SLOT_FREE)
			continue;
		record_read_text(record, i, &text, NULL);
		if (strcmp(text.token, f->lock.token) == 0)
			record->own = i;
	}
	if (record->own >= 0) {
		record->serial = file_own(f)->serial;
		f->flocked = true;
	}
	return record->own >= 0;
}

static void renew(struct file_lock *f, const void *terms, struct lock_answer *answer)
{
	(void)terms;
	if (lock_is_by_token(&f->request))
		renew_detached(f, answer);
	else if (f->record.own < 0 && !(f->lock.orphaned && find_orphan(f)))
		answer->result = LOCK_LOST;
	else
		renew_own(f, answer);
}

void file_renew(struct lock *lock, struct deadline deadline, struct lock_answer *answer)
{
	answer->asked_at = clock_now();
	file_change((struct file_lock *)lock, deadline, renew, NULL, answer);
}

/* --- Giving back ------------------------------------------------------------------------------ */

/* Whether --at-least goes on. */
static bool is_kept(struct file_lock *f)
{
	nanos least = file_own(f)->least;

	return least != 0 && least > record_moment(&f->record, clock_now());
}

/* Waiters for which a success on record will do end without the lock, though it stays, or goes to
 * others. */
static bool tell_asking(struct file_lock *f, struct failure *failure)
{
	for (int i = 0; i < f->record.head.count; i++)
		if (f->record.slots[i].state == SLOT_WAITING && f->record.slots[i].asks)
			return ring_bell(f, failure);
	return true;
}

static void note_run(
	struct file_lock *f, const struct release_terms *terms, struct lock_answer *answer)
{
	const struct lock_request *request = &f->request;
	struct failure *failure = &answer->failure;

	if (terms->ran &&
		!record_write_run(&f->record, terms->exit, request->self, terms->success, failure))
		answer->flawed = true;
	if (!terms->success)
		return;
	answer->flawed |= request->once && record_once(&f->folder, f->file, request->once,
						   request->once_for_ms, failure) < 0;
	answer->flawed |= !tell_asking(f, failure);
}

/* Our own slot ends, or stays for a while. */
static void end_own(
	struct file_lock *f, const struct release_terms *terms, struct lock_answer *answer)
{
	struct record_head *head = &f->record.head;
	struct slot *own = file_own(f);
	nanos least = own->least;
	int64_t now = clock_wall_us();

	if (!lock_is_by_token(&f->request))
		least = terms && terms->keep_ms > 0
				? record_moment(
					  &f->record, clock_now() + terms->keep_ms * NANOS_PER_MS)
				: 0;

	answer->result = LOCK_RELEASED;
	if (own->state == SLOT_WAITING)
		head->timeouts++;
	else if (own->broken)
		record_loss(f, answer);
	else if (terms)
		note_run(f, terms, answer);
	if (own->state == SLOT_HOLDING && now > own->since)
		head->held_us += now - own->since;
	own->least = own->until = own->broken ? 0 : least;
	own->state = is_kept(f) ? SLOT_OVER : SLOT_FREE;
}

/* A detached one may have expired, and the slot be another's. So it may be if the keeper was killed
 * after it had given the lock back, and the front does so once more. */
static bool is_still_ours(const struct file_lock *f)
{
	return f->record.own < f->record.head.count && file_own(f)->serial == f->record.serial;
}

static void release_own(
	struct file_lock *f, const struct release_terms *terms, struct lock_answer *answer)
{
	bool detached = file_own(f)->detached;

	if (!is_still_ours(f)) {
		file_forget(f);
		answer->result = detached ? LOCK_LOST : LOCK_RELEASED;
		return;
	}
	end_own(f, terms, answer);
	file_unlock(f);
	file_forget(f);
	silence(f);
	f->flocked = false;
	if (detached && !ring_bell(f, &answer->failure))
		answer->result = LOCK_FAILED;
}

static void release(struct file_lock *f, const void *terms, struct lock_answer *answer)
{
	if (lock_is_by_token(&f->request)) {
		f->record.own = find_detached(f, &answer->failure);
		if (f->record.own >= 0)
			f->record.serial = file_own(f)->serial;
	}
	answer->result = LOCK_LOST;
	if (f->lock.orphaned)
		answer->result = find_orphan(f) ? LOCK_LOST : LOCK_GONE;
	if (f->record.own >= 0)
		release_own(f, terms, answer);
}

/* If the record cannot be had, the kernel lets others have the lock all the same once the process
 * has dropped it. */
void file_release(struct lock *lock, const struct release_terms *release_terms,
	struct deadline deadline, struct lock_answer *answer)
{
	struct file_lock *f = (struct file_lock *)lock;

	answer->result = LOCK_RELEASED;
	if (lock_is_by_token(&f->request) || f->record.own >= 0 || f->lock.orphaned)
		file_change(f, deadline, release, release_terms, answer);
	file_unlock(f);
	f->loss_told = false;
	lock->asked = false;
	token_begin(&f->request, f->lock.token);
}

/* --- Breaking --------------------------------------------------------------------------------- */

struct breaking {
	lock_holder_taker *tell;
	void *context;
};

/* A holder that lives keeps the lock until its COMMAND is stopped; a lock without a process ends.
 */
static void break_slot(struct file_lock *f, int i, const struct breaking *breaking)
{
	struct slot *slot = &f->record.slots[i];
	struct lock_answer held = {.result = LOCK_BUSY};

	file_name_holder(f, i, &held);
	held.detached = record_holds_until(&f->record, i) != NANOS_NEVER;
	breaking->tell(&held, breaking->context);
	slot->broken = true;
	if (record_holds_until(&f->record, i) == NANOS_NEVER) {
		slot->least = 0;
	} else {
		slot->state = SLOT_FREE;
		f->record.head.lost++;
	}
}

/* Tells the keepers of those that live, and the waiters. */
static bool ring_all(struct file_lock *f, bool live, struct failure *failure)
{
	enum folder_ring heard = folder_ring(&f->folder, f->file, FOLDER_ENDED, failure);

	if (heard == RING_UNHEARD && live)
		return failure_set(failure, EXIT_PROTOCOL,
			"%s/.%s+ended was removed: its holder cannot be told", f->folder.path,
			f->file);
	return heard != RING_FAILED && ring_bell(f, failure);
}

/* There is no dlock that holds it. Another program cannot be told to stop. */
static enum lock_result leave_foreign(const struct file_lock *f, struct failure *failure)
{
	if (flock(f->fd, LOCK_EX | LOCK_NB) == 0) {
		flock(f->fd, LOCK_UN);
		return LOCK_GONE;
	}
	failure_set(failure, EXIT_REFUSED,
		"another program holds it (flock), which only its end can break: see fuser %s/%s",
		f->folder.path, f->file);
	return LOCK_FAILED;
}

/* Whether it keeps the lock, and is one that is to lose it. */
static bool is_meant(const struct file_lock *f, int i)
{
	const struct slot *slot = &f->record.slots[i];
	uint64_t only = (uint64_t)f->request.fence;

	return !slot->broken && (only == 0 || slot->fence == only) &&
	       record_holds_until(&f->record, i) != 0;
}

static void break_all(struct file_lock *f, const void *breaking, struct lock_answer *answer)
{
	const struct record *record = &f->record;
	int count = record->head.count;
	bool any = false, live = false;

	for (int i = 0; i < count; i++) {
		any = any || is_meant(f, i);
		live = live || (is_meant(f, i) && record_holds_until(record, i) == NANOS_NEVER);
	}
	answer->result = LOCK_FAILED;
	if (!any)
		answer->result =
			f->request.fence > 0 ? LOCK_GONE : leave_foreign(f, &answer->failure);
	if (!any || !ring_all(f, live, &answer->failure))
		return;
	for (int i = 0; i < count; i++)
		if (is_meant(f, i))
			break_slot(f, i, breaking);
	answer->result = LOCK_RELEASED;
}

void file_force(struct lock *lock, lock_holder_taker *tell, void *context, struct deadline deadline,
	struct lock_answer *answer)
{
	const struct breaking breaking = {tell, context};

	file_change((struct file_lock *)lock, deadline, break_all, &breaking, answer);
}
