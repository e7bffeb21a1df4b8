/* Threads that wait for what is in the way: see file_lock.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/wakeup.h"
#include "file/file_lock.h"

#define STACK      (64 * 1024)
#define NUDGE      SIGURG               /* ends a thread's system call; ignored by default */
#define LOOK_EVERY NANOS_PER_SEC        /* if a user looks on, or not all in the way is watched */
#define POLL_EVERY (100 * NANOS_PER_MS) /* no thread is to be had */
#define LEAVE_IT   (50 * NANOS_PER_MS)  /* to the one ahead of us, to go first */

bool file_is_removed(const struct file_lock *f)
{
	return folder_has_lost(f->fd) || folder_has_lost(f->record.fd);
}

/* Of the thread that is to hear of the folder. */
static _Thread_local int told = -1;

static void tell(int signal)
{
	(void)signal;
	if (told >= 0)
		wakeup_send(told);
}

/* From now on this thread ends the wait if anything is removed from the folder: its lock may be,
 * and then it is said at once. A kernel without it tells nothing. inotify(7) would do, but to close
 * it takes 11 to 16 ms, and a user may have 128. */
static void watch_folder(struct file_lock *f)
{
	struct f_owner_ex self = {.type = F_OWNER_TID, .pid = gettid()};
	int *fd = &f->wait.folder_fd;
	bool first = *fd < 0;

	told = f->wait.wakeup_fd;
	if (first)
		*fd = openat(f->folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fcntl(*fd, F_SETSIG, NUDGE);
	fcntl(*fd, F_SETOWN_EX, &self);
	if (first)
		fcntl(*fd, F_NOTIFY, DN_DELETE | DN_MULTISHOT);
	/* What was removed before that. */
	if (file_is_removed(f))
		wakeup_send(told);
}

/* Whether what is in the way is so no longer; false with EINTR. */
static bool block(struct obstacle *o)
{
	struct file_lock *f = o->lock;
	struct pollfd bell = {.fd = f->wait.bell_fd}; /* POLLHUP */

	switch (o->kind) {
	case OBSTACLE_FLOCK:
		o->got = flock(f->fd, f->request.mode == LOCK_EXCLUSIVE ? LOCK_EX : LOCK_SH) == 0;
		return o->got;
	case OBSTACLE_BYTE:
		return record_await(f->record.fd, o->serial, o->byte);
	default:
		return poll(&bell, 1, -1) > 0;
	}
}

static void *watch(void *argument)
{
	struct obstacle *o = argument;
	sigset_t nudge;

	sigemptyset(&nudge);
	sigaddset(&nudge, NUDGE);
	pthread_sigmask(SIG_UNBLOCK, &nudge, NULL);
	if (o == o->lock->wait.obstacles)
		watch_folder(o->lock);
	while (!atomic_load(&o->lock->wait.stop) && !block(o))
		if (errno != EINTR)
			usleep(100000); /* no memory for a lock in the kernel, say */
	told = -1;
	atomic_store(&o->over, true);
	wakeup_send(o->lock->wait.wakeup_fd);
	return NULL;
}

static void start(struct file_lock *f)
{
	struct file_wait *wait = &f->wait;
	sigset_t all, before;
	pthread_attr_t attributes;

	sigaction(NUDGE, &(struct sigaction){.sa_handler = tell}, &wait->before);
	atomic_store(&wait->stop, false);
	wait->wakeup_fd = wakeup_open();
	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	for (int i = 0; i < wait->count && wait->wakeup_fd >= 0; i++) {
		struct obstacle *o = &wait->obstacles[i];

		o->lock = f;
		o->got = false;
		atomic_store(&o->over, false);
		if (pthread_create(&o->thread, &attributes, watch, o) != 0)
			break;
		wait->threads++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
}

bool file_wait_stop(struct file_wait *wait)
{
	bool got = false;

	atomic_store(&wait->stop, true);
	for (; wait->threads > 0; wait->threads--) {
		struct obstacle *o = &wait->obstacles[wait->threads - 1];

		/* The first may come before the thread blocks. */
		while (!atomic_load(&o->over)) {
			pthread_kill(o->thread, NUDGE);
			usleep(20);
		}
		pthread_join(o->thread, NULL);
		got = got || o->got;
	}
	if (wait->wakeup_fd < 0)
		return got;
	sigaction(NUDGE, &wait->before, NULL);
	close(wait->wakeup_fd);
	wait->wakeup_fd = -1;
	return got;
}

static nanos next_look(const struct file_lock *f)
{
	const struct file_wait *wait = &f->wait;
	nanos span = NANOS_NEVER;

	if (wait->threads < wait->count)
		span = POLL_EVERY;
	else if (f->request.watched || wait->count == OBSTACLES)
		span = LOOK_EVERY;
	span = clock_after(clock_now(), span);
	return span < wait->look_at ? span : wait->look_at;
}

/* Whether all that is over is ahead of the one before us. That one goes first, and its going ends
 * our wait too; to look before it has gone would be in its way. */
static bool is_early(const struct file_wait *wait)
{
	const struct obstacle *last = &wait->obstacles[wait->count - 1];
	bool any = false;

	wakeup_clear(wait->wakeup_fd);
	for (int i = 0; i < wait->threads; i++)
		any = any || atomic_load(&wait->obstacles[i].over);
	return any && last->kind == OBSTACLE_BYTE && last->byte == BYTE_QUEUE &&
	       !atomic_load(&last->over);
}

enum lock_result file_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct file_lock *f = (struct file_lock *)lock;
	struct file_wait *wait = &f->wait;
	nanos look_at;

	(void)failure;
	if (wait->wakeup_fd < 0)
		start(f);
	look_at = next_look(f);
	for (;;) {
		struct deadline limit = deadline;

		if (look_at < limit.until)
			limit.until = look_at;
		switch (deadline_wait(&limit, wait->threads > 0 ? wait->wakeup_fd : -1, POLLIN)) {
		case DEADLINE_CANCELLED:
			return LOCK_CANCELLED;
		case DEADLINE_READY:
			if (is_early(wait)) {
				nanos then = clock_now() + LEAVE_IT;

				look_at = then < look_at ? then : look_at;
				continue;
			}
			f->flocked = file_wait_stop(wait) || f->flocked;
			return LOCK_GRANTED;
		case DEADLINE_OVER:
			break;
		}
		if (clock_now() >= look_at) {
			f->flocked = file_wait_stop(wait) || f->flocked;
			return LOCK_GRANTED;
		}
		if (deadline_is_over(&deadline))
			return LOCK_TIMEOUT;
	}
}
