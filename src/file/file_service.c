#include "file/file_service.h"

#include <bsd/string.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "file/file_lock.h"
#include "lock/token.h"

static struct lock *file_open(
	const struct server *server, const struct lock_request *request, struct failure *failure)
{
	struct file_lock *f = calloc(1, sizeof(*f));

	if (!f) {
		failure_set(failure, EXIT_SYSTEM, "out of memory");
		return NULL;
	}
	f->lock.service = &file_service;
	f->request = *request;
	f->server = server;
	f->folder.fd = f->fd = f->ended_fd = f->wait.wakeup_fd = f->wait.bell_fd =
		f->wait.folder_fd = -1;
	record_begin(&f->record, record_boot(&request->self));
	folder_key(request->prefix, request->name, f->key);
	folder_name(f->key, f->file);
	if (request->token)
		strlcpy(f->lock.token, request->token, sizeof(f->lock.token));
	else
		token_make(&request->self, f->lock.token);
	return &f->lock;
}

static void file_close(struct lock *lock)
{
	struct file_lock *f = (struct file_lock *)lock;

	file_wait_stop(&f->wait);
	file_close_all(f);
	free(lock);
}

/* The lock is with an open file that both sides of the fork have, and free once neither has it: so
 * nothing is closed. What only this side could do is over. */
static void file_leave(struct lock *lock)
{
	file_wait_stop(&((struct file_lock *)lock)->wait);
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
	       LOCK_CAN_KEEP | LOCK_CAN_DETACH | LOCK_CAN_JOIN | LOCK_CAN_FORCE,
	.lacks = lacks,
	.read_url = folder_read_url,
	.open = file_open,
	.close = file_close,
	.take = file_take,
	.renew = file_renew,
	.release = file_release,
	.leave = file_leave,
	.wait = file_wait,
	.watch_fd = file_watch_fd,
	.force = file_force,
	.check = file_check,
	.list = &file_list_ops,
	.shows_tokens = true,
};
