#include "file/file_record.h"

#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"
#include "lock/service.h"

#define SLOTS_AT    sizeof(struct record_head) /* in the file: the slots, */
#define RUNS_AT     (131 * RECORD_PAGE)        /* the last run, and the last success */
#define TEXTS_AT    (132 * RECORD_PAGE)        /* and what belongs to each */
#define BYTES_AT    (INT64_C(1) << 40) /* the mutex, and each owner's three bytes: beyond any file */
#define SPINS       200                /* before a pause: the mutex is held for microseconds */
#define PAUSE       NANOS_PER_MS
#define LOOK        (100 * NANOS_PER_MS)         /* how long a dlock that only looks has patience */
#define MAGIC       UINT64_C(0x31206b636f6c6420) /* " dlock 1" */
#define FORMAT_AT   56 /* its bits: the last letter of that is LOCK_FORMAT */
#define FORMAT_BITS (UINT64_C(0xff) << FORMAT_AT)

#define US_PER_PRIORITY (60 * INT64_C(1000000)) /* a point counts as a minute of waiting */

_Static_assert(sizeof(struct slot) == 128, "a slot crosses a page");
_Static_assert(sizeof(struct slot_text) == 2048, "a text crosses a page");
_Static_assert(SLOTS_AT + RECORD_FEW * sizeof(struct slot) == RECORD_PAGE, "a page is not full");
_Static_assert(SLOTS_AT + RECORD_MOST * sizeof(struct slot) <= RUNS_AT, "slots reach into runs");

/* In the file. Two lie in one page. */
struct run {
	uint64_t check;
	int64_t began, ended; /* us */
	int64_t exit;
	char owner[OWNER_TEXT]; /* of owner_write */
	char rest[392];
};

_Static_assert(sizeof(struct run) == 1024, "a run crosses a page");

/* The digest of so many bytes, a multiple of 8. It is 0 for zeros, and any byte that changes
 * changes it. */
static uint64_t digest(const void *bytes, size_t length)
{
	uint64_t sum = 0, word;

	for (size_t i = 0; i < length; i += sizeof(word)) {
		memcpy(&word, (const char *)bytes + i, sizeof(word));
		sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		sum ^= sum >> 29;
	}
	return sum;
}

/* The checksum of the bytes behind it; head and slot begin with it. */
static uint64_t check_of(const void *bytes, size_t length)
{
	return digest((const char *)bytes + sizeof(uint64_t), length - sizeof(uint64_t));
}

uint64_t record_boot(const struct owner *self)
{
	char boot[40] = "";
	struct owner own;

	if (self->boot[0] == '\0') {
		owner_self(&own, "");
		self = &own;
	}
	strlcpy(boot, self->boot, sizeof(boot));
	return digest(boot, sizeof(boot)) | 1;
}

void record_begin(struct record *record, uint64_t boot)
{
	*record = (struct record){.fd = -1, .own = -1, .boot = boot, .room = RECORD_FEW};
	record->slots = record->few;
}

bool record_open(struct record *record, const struct folder *folder, const char *file,
	const char *key, bool writing, struct failure *failure)
{
	record->path = folder->path;
	record->file = file;
	record->key = key;
	record->fd = folder_open_part(
		folder, file, FOLDER_RECORD, writing ? O_RDWR : O_RDONLY, writing, failure);
	return record->fd >= 0;
}

static void drop_room(struct record *record)
{
	if (record->slots != record->few)
		munmap(record->slots, record->room * sizeof(struct slot));
	record->slots = record->few;
	record->room = RECORD_FEW;
}

void record_close(struct record *record)
{
	if (record->fd >= 0)
		close(record->fd);
	drop_room(record);
	record->fd = record->own = -1;
}

/* --- Bytes ------------------------------------------------------------------------------------ */

static struct flock bytes_of(int64_t serial, int first, int count, short type)
{
	return (struct flock){.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = BYTES_AT + 1 + 3 * serial + first,
		.l_len = count};
}

bool record_lives(const struct record *record, int slot, enum record_byte byte)
{
	/* Waiters for the byte want it for reading, so they are no conflict. */
	struct flock lock = bytes_of(record->slots[slot].serial, byte, 1, F_RDLCK);

	return slot == record->own || fcntl(record->fd, F_OFD_GETLK, &lock) != 0 ||
	       lock.l_type != F_UNLCK;
}

/* Bytes that no other had: if those of a slot were used again, one that waits for them and has not
 * woken yet would wait for the next owner of the slot. */
static bool grip(struct record *record, bool waits, struct failure *failure)
{
	for (int i = 0; i < RECORD_MOST; i++) {
		struct flock lock = bytes_of(++record->head.serial,
			waits ? BYTE_QUEUE : BYTE_HOLDER, waits ? 3 : 2, F_WRLCK);

		record->serial = record->head.serial;
		if (fcntl(record->fd, F_OFD_SETLK, &lock) == 0)
			return true;
		/* The bytes of a dlock that was killed just now may be in use for a moment still.
		 */
		if (errno != EAGAIN && errno != EACCES)
			break;
	}
	return failure_set(failure, EXIT_SYSTEM, "cannot lock the lock's record: %m");
}

void record_drop(const struct record *record, bool all)
{
	struct flock lock = bytes_of(record->serial, BYTE_QUEUE, all ? 3 : 1, F_UNLCK);

	fcntl(record->fd, F_OFD_SETLK, &lock);
}

bool record_await(int fd, int64_t serial, enum record_byte byte)
{
	struct flock lock = bytes_of(serial, byte, 1, F_RDLCK);

	if (fcntl(fd, F_OFD_SETLKW, &lock) != 0)
		return false;
	lock.l_type = F_UNLCK;
	fcntl(fd, F_OFD_SETLK, &lock);
	return true;
}

/* --- The mutex -------------------------------------------------------------------------------- */

/* Says which process has had the mutex for all that time. */
static void blame(const struct record *record, struct flock *lock, struct failure *failure)
{
	if (fcntl(record->fd, F_GETLK, lock) == 0 && lock->l_type != F_UNLCK && lock->l_pid > 0)
		failure_set(failure, EXIT_UNREACHABLE,
			"process %d stands still while it changes the lock's record",
			(int)lock->l_pid);
	else
		failure_set(failure, EXIT_UNREACHABLE,
			"a process stands still while it changes the lock's record");
}

/* A lock of the process, not of the open file: the front has that as well, and would keep the mutex
 * of a keeper that is killed. */
static enum lock_result take_mutex(
	const struct record *record, struct deadline deadline, struct failure *failure)
{
	struct flock lock = {.l_type = record->reading ? F_RDLCK : F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = BYTES_AT,
		.l_len = 1};
	struct deadline look = deadline_within(deadline, LOOK);

	for (int i = 0; fcntl(record->fd, F_SETLK, &lock) != 0; i++) {
		if (errno != EAGAIN && errno != EACCES && errno != EINTR) {
			failure_set(failure, EXIT_SYSTEM, "cannot lock the lock's record: %m");
			return LOCK_FAILED;
		}
		if (i < SPINS) {
			sched_yield();
			continue;
		}
		if (!deadline_pause(deadline, PAUSE))
			return LOCK_CANCELLED;
		if (record->reading && deadline_is_over(&look))
			return LOCK_GRANTED;
		if (deadline_is_over(&deadline)) {
			blame(record, &lock, failure);
			return LOCK_TIMEOUT;
		}
	}
	return LOCK_GRANTED;
}

/* --- Reading ---------------------------------------------------------------------------------- */

/* Many are not allocated: memory that is freed stays with the process, and it may wait for long. */
static bool make_room(struct record *record, size_t count, struct failure *failure)
{
	size_t room = count + 2 * RECORD_FEW, size = room * sizeof(struct slot);
	struct slot *slots;

	if (count <= record->room)
		return true;
	slots = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slots == MAP_FAILED)
		return failure_set(failure, EXIT_SYSTEM, "out of memory");
	memcpy(slots, record->slots, record->room * sizeof(struct slot));
	drop_room(record);
	record->slots = slots;
	record->room = room;
	return true;
}

static bool fail_damaged(const struct record *record, struct failure *failure)
{
	return failure_set(failure, EXIT_PROTOCOL,
		"%s/.%s is no record of dlock, or was damaged: if no dlock uses that lock, remove "
		"it",
		record->path, record->file);
}

/* The format is the last letter of the magic. */
static bool is_newer(const struct record_head *head)
{
	return ((head->magic ^ MAGIC) & ~FORMAT_BITS) == 0 &&
	       (head->magic & FORMAT_BITS) > (MAGIC & FORMAT_BITS);
}

/* A file in which there is nothing yet, or whose first write was cut off, is a new one. */
static bool read_head(struct record *record, size_t got, struct failure *failure)
{
	struct record_head *head = &record->head;
	static const struct record_head none;

	if (is_newer(head))
		return lock_fail_format(
			failure, record->path, (int64_t)(head->magic >> FORMAT_AT & 0xff) - '0');
	if (got >= sizeof(*head) && head->check == check_of(head, sizeof(*head)) &&
		(head->magic == MAGIC || memcmp(head, &none, sizeof(none)) == 0) &&
		head->count >= 0 && head->count <= RECORD_MOST &&
		head->key[sizeof(head->key) - 1] == '\0')
		return true;
	if (got >= sizeof(*head) || (got > 0 && head->magic != MAGIC))
		return fail_damaged(record, failure);
	*head = none;
	return true;
}

/* By the clock of children: a process becomes a child before it becomes dlock. There is no such
 * file if the kernel has no time namespaces. */
static void find_clock(struct record *record)
{
	FILE *file = record->clock_known ? NULL : fopen("/proc/self/timens_offsets", "re");
	long long seconds, rest;
	char line[80];

	record->clock_known = true;
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "boottime %lld %lld", &seconds, &rest) == 2)
			record->clock_offset = seconds * NANOS_PER_SEC + rest;
	if (file)
		fclose(file);
}

nanos record_moment(struct record *record, nanos moment)
{
	find_clock(record);
	return moment - record->clock_offset;
}

static bool read_slots(struct record *record, struct failure *failure)
{
	size_t count = (size_t)record->head.count,
	       more = count > RECORD_FEW ? (count - RECORD_FEW) * sizeof(struct slot) : 0;

	if (!make_room(record, count + 1, failure))
		return false;
	if (record->slots != record->few)
		memcpy(record->slots, record->few, sizeof(record->few));
	if (more > 0 &&
		pread(record->fd, record->slots + RECORD_FEW, more, RECORD_PAGE) != (ssize_t)more)
		return failure_set(failure, EXIT_SYSTEM, "cannot read the lock's record: %m");
	for (size_t i = 0; i < count; i++) {
		struct slot *slot = &record->slots[i];

		if (slot->check != check_of(slot, sizeof(*slot)))
			return fail_damaged(record, failure);
		/* A folder for all is open to what anybody writes. */
		if (slot->boot != record->boot || slot->mode < LOCK_EXCLUSIVE ||
			slot->mode > LOCK_PERMITS)
			*slot = (struct slot){0};
		if (slot->until != 0 || slot->least != 0)
			find_clock(record);
	}
	return true;
}

static bool read_record(struct record *record, struct failure *failure)
{
	ssize_t got;

	memset(record->page, 0, sizeof(record->page));
	got = pread(record->fd, record->page, sizeof(record->page), 0);
	if (got < 0)
		return failure_set(failure, EXIT_SYSTEM, "cannot read the lock's record: %m");
	return read_head(record, (size_t)got, failure) && read_slots(record, failure);
}

enum lock_result record_enter(
	struct record *record, struct deadline deadline, struct failure *failure)
{
	enum lock_result result;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &record->mask);
	result = take_mutex(record, deadline, failure);
	if (result == LOCK_GRANTED && read_record(record, failure))
		return result;
	record_leave(record);
	return result == LOCK_GRANTED ? LOCK_FAILED : result;
}

void record_leave(struct record *record)
{
	struct flock lock = {
		.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = BYTES_AT, .l_len = 1};

	fcntl(record->fd, F_SETLK, &lock);
	pthread_sigmask(SIG_SETMASK, &record->mask, NULL);
	if (!record->reading)
		drop_room(record);
}

void record_read_text(
	const struct record *record, int slot, struct slot_text *text, struct owner *owner)
{
	const off_t at = TEXTS_AT + (off_t)slot * (off_t)sizeof(*text);

	*text = (struct slot_text){0};
	(void)!pread(record->fd, text, sizeof(*text), at);
	text->token[LOCK_TOKEN_SIZE - 1] = text->owner[OWNER_TEXT - 1] =
		text->held[RECORD_HELD - 1] = '\0';
	if (owner)
		owner_read(owner, text->owner);
}

/* --- Writing ---------------------------------------------------------------------------------- */

static bool put(const struct record *record, const void *bytes, size_t length, off_t at,
	struct failure *failure)
{
	ssize_t done = pwrite(record->fd, bytes, length, at);

	if (done == (ssize_t)length)
		return true;
	if (done >= 0)
		errno = ENOSPC;
	return failure_set(failure, EXIT_SYSTEM, "cannot write the lock's record: %m");
}

bool record_commit(struct record *record, struct failure *failure)
{
	struct record_head *head = &record->head;
	bool good = true;

	if (head->check != check_of(head, sizeof(*head))) {
		head->magic = MAGIC;
		strlcpy(head->key, record->key, sizeof(head->key));
		head->check = check_of(head, sizeof(*head));
		good = put(record, head, sizeof(*head), 0, failure);
	}
	for (int i = 0; good && i < head->count; i++) {
		struct slot *slot = &record->slots[i];
		uint64_t check = check_of(slot, sizeof(*slot));

		if (slot->check == check)
			continue;
		slot->check = check;
		good = put(record, slot, sizeof(*slot),
			(off_t)(SLOTS_AT + (size_t)i * sizeof(*slot)), failure);
	}
	return good;
}

bool record_write_text(const struct record *record, const char *token, const struct owner *owner,
	const char *held, struct failure *failure)
{
	struct slot_text text = {0};

	strlcpy(text.token, token, sizeof(text.token));
	owner_write(owner, text.owner);
	/* A text that does not fit is left out: a circle through it is not found. */
	strlcpy(text.held, held ? held : "", sizeof(text.held));
	return put(record, &text, sizeof(text), TEXTS_AT + (off_t)record->own * (off_t)sizeof(text),
		failure);
}

bool record_claim(struct record *record, bool waits, struct failure *failure)
{
	int count = record->head.count, slot = 0;

	while (count > 0 && record->slots[count - 1].state == SLOT_FREE)
		count--;
	while (slot < count && record->slots[slot].state != SLOT_FREE)
		slot++;
	if (slot == RECORD_MOST)
		return failure_set(failure, EXIT_SYSTEM,
			"%d processes hold the lock or wait for it", RECORD_MOST);
	if (!make_room(record, (size_t)slot + 1, failure) || !grip(record, waits, failure))
		return false;
	if (slot == count)
		record->slots[count++] = (struct slot){0};
	record->head.count = count;
	record->own = slot;
	return true;
}

/* --- Runs ------------------------------------------------------------------------------------- */

bool record_write_run(struct record *record, int exit, const struct owner *owner, bool success,
	struct failure *failure)
{
	struct run runs[2] = {{.began = record->slots[record->own].since,
		.ended = clock_wall_us(),
		.exit = exit}};

	owner_write(owner, runs[0].owner);
	runs[0].check = check_of(&runs[0], sizeof(runs[0]));
	runs[1] = runs[0];
	if (success)
		record->head.success = runs[0].began;
	return put(record, runs, (success ? 2 : 1) * sizeof(runs[0]), RUNS_AT, failure);
}

void record_read_run(const struct record *record, bool success, struct lock_run *run)
{
	const off_t at = RUNS_AT + (success ? (off_t)sizeof(struct run) : 0);
	struct run found;

	*run = (struct lock_run){0};
	if (pread(record->fd, &found, sizeof(found), at) != (ssize_t)sizeof(found) ||
		found.ended == 0 || found.check != check_of(&found, sizeof(found)))
		return;
	found.owner[OWNER_TEXT - 1] = '\0';
	run->began_us = found.began;
	run->ended_us = found.ended;
	run->exit = (int)found.exit;
	run_date(run, clock_wall_us());
	owner_read(&run->owner, found.owner);
}

/* --- Owners ----------------------------------------------------------------------------------- */

nanos record_holds_until(const struct record *record, int slot)
{
	const struct slot *s = &record->slots[slot];
	nanos until = s->detached ? s->until : s->least;

	if (s->state == SLOT_FREE || s->state == SLOT_WAITING)
		return 0;
	if (!s->detached && record_lives(record, slot, BYTE_HOLDER))
		return NANOS_NEVER;
	until += record->clock_offset;
	return until > clock_now() ? until : 0;
}

int64_t record_order(int64_t ticket, int priority)
{
	return ticket - priority * US_PER_PRIORITY;
}

/* --- Successes under an ID -------------------------------------------------------------------- */

/* One entry of the file .NAME+once. */
struct once {
	char id[48];         /* of its digest: entries of 64 bytes cross no page */
	int64_t when, until; /* us */
};

/* Where the ID stands, else where it may be written: an entry that is over, or the end. */
static off_t find_once(int fd, const char *id, struct once *found)
{
	off_t place = -1, at = 0;

	for (; pread(fd, found, sizeof(*found), at) == sizeof(*found);
		at += (off_t)sizeof(*found)) {
		bool over = found->until <= clock_wall_us();

		if (!over && memcmp(found->id, id, sizeof(found->id)) == 0)
			return at;
		if (over && place < 0)
			place = at;
	}
	*found = (struct once){0};
	return place < 0 ? at : place;
}

int64_t record_once(const struct folder *folder, const char *file, const char *once,
	int64_t keep_ms, struct failure *failure)
{
	char id[SHA256_DIGEST_STRING_LENGTH];
	struct once entry;
	off_t at;
	int fd = folder_open_part(folder, file, FOLDER_ONCE, O_RDWR, keep_ms > 0, failure);

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	SHA256Data((const uint8_t *)once, strlen(once), id);
	at = find_once(fd, id, &entry);
	if (keep_ms > 0) {
		memcpy(entry.id, id, sizeof(entry.id));
		entry.when = clock_wall_us();
		entry.until = entry.when + keep_ms * 1000;
		if (pwrite(fd, &entry, sizeof(entry), at) != sizeof(entry)) {
			failure_set(failure, EXIT_SYSTEM, "cannot note the success: %m");
			entry.when = -1;
		}
	}
	close(fd);
	return entry.when;
}
