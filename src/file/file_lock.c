#include "file/file_lock.h"

#include <bsd/string.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

struct slot *file_own(struct file_lock *f)
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
	record_drop(&f->record, true);
	f->record.own = -1;
}

bool file_is_removed(const struct file_lock *f)
{
	return folder_has_lost(f->fd) || folder_has_lost(f->record.fd);
}

void file_name_holder(const struct file_lock *f, int slot, struct lock_answer *answer)
{
	nanos until = record_holds_until(&f->record, slot);
	struct slot_text text;

	record_read_text(&f->record, slot, &text);
	strlcpy(answer->holder_token, text.token, sizeof(answer->holder_token));
	answer->holder = text.owner;
	answer->known = text.owner.pid != 0;
	answer->held_ms = (record_now() - f->record.slots[slot].since) / 1000;
	answer->free_in_ms = until == NANOS_NEVER ? -1 : (until - clock_now()) / NANOS_PER_MS;
}

static bool open_all(struct file_lock *f, struct failure *failure)
{
	if (f->folder.fd < 0 && !folder_open(&f->folder, f->server, true, failure))
		return false;
	if (f->fd < 0)
		f->fd = folder_open_file(&f->folder, f->file, O_RDONLY, true, failure);
	return f->fd >= 0 && (f->record.fd >= 0 || record_open(&f->record, &f->folder, f->file,
							   f->key, true, failure));
}

enum lock_result file_enter(
	struct file_lock *f, struct deadline deadline, struct lock_answer *answer)
{
	if (!open_all(f, &answer->failure))
		return LOCK_FAILED;
	return record_enter(&f->record, deadline, &answer->failure);
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
	close_fd(&f->wait.folder_fd);
	close_fd(&f->folder.fd);
	record_close(&f->record);
	f->flocked = f->loss_told = false;
}
