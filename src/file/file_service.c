#include <bsd/string.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "file/file_lock.h"
#include "lock/token.h"

struct slot *file_own(const struct file_lock *f)
{
	return &f->record.slots[f->record.own];
}

void file_unlock(struct file_lock *f)
{
	if (f->flocked)
		flock(f->fd, LOCK_UN);
	f->flocked = false;
}

void file_forget(struct file_lock *f)
{
	if (f->record.own >= 0)
		record_drop(&f->record, true);
	f->record.own = -1;
}

void file_step_aside(struct file_lock *f)
{
	file_unlock(f);
	if (f->record.own >= 0)
		file_own(f)->state = SLOT_FREE;
	file_forget(f);
}

void file_name_holder(const struct file_lock *f, int slot, struct lock_answer *answer)
{
	nanos until = record_holds_until(&f->record, slot);
	struct slot_text text;

	record_read_text(&f->record, slot, &text, &answer->holder);
	if (f->record.slots[slot].state != SLOT_OVER)
		strlcpy(answer->holder_token, text.token, sizeof(answer->holder_token));
	answer->known = answer->holder.pid != 0;
	answer->held_ms = (clock_wall_us() - f->record.slots[slot].since) / 1000;
	answer->free_in_ms = until == NANOS_NEVER ? -1 : (until - clock_now()) / NANOS_PER_MS;
}

static bool open_all(struct file_lock *f, struct failure *failure)
{
	if (f->folder.fd < 0 && !folder_open(&f->folder, f->server, true, failure))
		return false;
	if (f->fd < 0)
		f->fd = folder_open_part(&f->folder, f->file, FOLDER_LOCK, O_RDONLY, true, failure);
	return f->fd >= 0 && (f->record.fd >= 0 || record_open(&f->record, &f->folder, f->file,
							   f->key, true, failure));
}

void file_change(struct file_lock *f, struct deadline deadline,
	void (*change)(struct file_lock *f, const void *terms, struct lock_answer *answer),
	const void *terms, struct lock_answer *answer)
{
	struct failure failure;
	bool written;

	answer->result = LOCK_FAILED;
	if (open_all(f, &answer->failure))
		answer->result = record_enter(&f->record, deadline, &answer->failure);
	if (answer->result != LOCK_GRANTED)
		return;
	change(f, terms, answer);
	written = record_commit(&f->record, &failure);
	record_leave(&f->record);
	/* A loss is one, on record or not; so is a lock that is busy for one that does not queue.
	 */
	if (written || answer->result == LOCK_FAILED || answer->result == LOCK_LOST ||
		(answer->result == LOCK_BUSY && f->record.own < 0))
		return;
	answer->result = LOCK_FAILED;
	answer->failure = failure;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void file_close_all(struct file_lock *f)
{
	close_fd(&f->fd);
	close_fd(&f->ended_fd);
	close_fd(&f->wait.bell_fd);
	close_fd(&f->folder.fd);
	record_close(&f->record);
	f->flocked = f->loss_told = false;
}

/* --- The service ------------------------------------------------------------------------------ */

static void file_close(struct lock *lock)
{
	struct file_lock *f = (struct file_lock *)lock;

	file_close_all(f);
	free(lock);
}

static struct lock *file_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct file_lock *f = lock_new(sizeof(*f), &file_service, request, failure);

	if (!f)
		return NULL;
	f->request = *request;
	f->server = server;
	f->folder.fd = f->fd = f->ended_fd = f->wait.bell_fd = -1;
	f->wait.free_at = NANOS_NEVER;
	record_begin(&f->record, record_boot(request->self));
	folder_key(request->prefix, request->name, f->key);
	folder_name(f->key, f->file);
	token_begin(request, f->lock.token);
	/* Before the fork: front and keeper both have what is opened now, and the kernel frees the
	 * lock when neither has it. */
	if (open_all(f, failure))
		return &f->lock;
	file_close(&f->lock);
	return NULL;
}

static int file_watch_fd(const struct lock *lock)
{
	return ((const struct file_lock *)lock)->ended_fd;
}

static const struct lock_scheme schemes[] = {{"file", false, 0, 0}, {0}};

static const struct lock_lack lacks[] = {
	{LOCK_CAN_REPLICATE, "the lock is on this host alone"},
	{LOCK_CAN_SETTLE, "there is no server that could forget its locks"},
	{0},
};

const struct lock_service file_service = {
	.name = "file:",
	.schemes = schemes,
	.can = LOCK_CAN_SHARE | LOCK_CAN_PERMITS | LOCK_CAN_PRIORITY | LOCK_CAN_RECORD |
	       LOCK_CAN_KEEP | LOCK_CAN_DETACH | LOCK_CAN_JOIN | LOCK_CAN_FORCE | LOCK_CAN_SHOW,
	.lacks = lacks,
	.read_url = folder_read_url,
	.open = file_open,
	.close = file_close,
	.take = file_take,
	.renew = file_renew,
	.release = file_release,
	.wait = file_wait,
	.watch_fd = file_watch_fd,
	.force = file_force,
	.check = file_check,
	.list = file_list,
};
