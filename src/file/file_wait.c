/* Waiting for what is in the way: see file_lock.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/newer_libc.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "file/file_lock.h"

#define STACK      (64 * 1024)
#define NUDGE      SIGURG               /* of the folder, and to helpers; ignored by default */
#define LOOK_EVERY NANOS_PER_SEC        /* if a user looks on, or not all in the way is watched */
#define POLL_EVERY (100 * NANOS_PER_MS) /* no thread is to be had */
#define RETRY_US   100000               /* no memory for a lock in the kernel, say */

/* A thread that blocks in the kernel until all of these bytes are free, or in flock(2). */
struct helper {
	struct file_lock *lock;
	const int64_t *serials; /* the owners of the bytes; borrowed */
	int count;              /* 0: flock(2) */
	enum record_byte byte;
	int told_fd;      /* borrowed: it tells by that that it is over, */
	atomic_bool over; /* and since when: */
	nanos over_at;
	pthread_t thread;
	atomic_bool ends; /* a nudge is to end it, */
	sigjmp_buf out;   /* this way */
};

struct waiting {
	struct file_lock *lock;
	struct helper helpers[WATCHED + 1];
	int count;
	int told_fd, folder_fd, removed_fd; /* owned; -1: not to be had */
	sigset_t mask;
};

bool file_is_removed(const struct file_lock *f)
{
	return folder_has_lost(f->fd) || folder_has_lost(f->record.fd) ||
	       (f->wait.bell_fd >= 0 && folder_has_lost(f->wait.bell_fd));
}

static void look_within(struct file_wait *wait, nanos span)
{
	nanos then = clock_now() + span;

	if (then < wait->look_at)
		wait->look_at = then;
}

static sigset_t nudge_alone(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, NUDGE);
	return set;
}

/* --- The folder ------------------------------------------------------------------------------- */

/* From now on removed_fd is readable once anything is removed from the folder: the lock may be, and
 * then it is said at once. A kernel without it tells nothing. inotify(7) would do, but to close it
 * takes 11 to 16 ms, and a user may have 128. */
static void watch_folder(struct waiting *w)
{
	struct f_owner_ex self = {.type = F_OWNER_TID, .pid = gettid()};
	const sigset_t nudge = nudge_alone();

	pthread_sigmask(SIG_BLOCK, &nudge, &w->mask);
	w->removed_fd = signalfd(-1, &nudge, SFD_CLOEXEC | SFD_NONBLOCK);
	w->folder_fd = openat(w->lock->folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fcntl(w->folder_fd, F_SETSIG, NUDGE);
	fcntl(w->folder_fd, F_SETOWN_EX, &self);
	fcntl(w->folder_fd, F_NOTIFY, DN_DELETE | DN_MULTISHOT);
	/* A file may have been removed before that. */
	if (file_is_removed(w->lock))
		raise(NUDGE);
}

static void leave_folder(struct waiting *w)
{
	struct signalfd_siginfo info;

	if (w->folder_fd >= 0)
		close(w->folder_fd);
	while (read(w->removed_fd, &info, sizeof(info)) > 0)
		continue;
	if (w->removed_fd >= 0)
		close(w->removed_fd);
	pthread_sigmask(SIG_SETMASK, &w->mask, NULL);
}

/* --- The helpers ------------------------------------------------------------------------------ */

/* A nudge may come before the system call that it is to end. So it is blocked up to a place from
 * which there is a way out. */
static _Thread_local struct helper *helping;

static void leave(int signal)
{
	(void)signal;
	if (helping && atomic_load(&helping->ends))
		siglongjmp(helping->out, 1);
}

/* False with errno. */
static bool block(const struct helper *h, int i)
{
	const struct file_lock *f = h->lock;

	if (h->count > 0)
		return record_await(f->record.fd, h->serials[i], h->byte);
	return flock(f->fd, f->wait.mode == LOCK_EXCLUSIVE ? LOCK_EX : LOCK_SH) == 0;
}

static void block_for_all(const struct helper *h)
{
	const sigset_t nudge = nudge_alone();

	pthread_sigmask(SIG_UNBLOCK, &nudge, NULL);
	for (int i = 0; i < h->count || i == 0; i++)
		while (!block(h, i))
			usleep(RETRY_US);
	pthread_sigmask(SIG_BLOCK, &nudge, NULL);
}

static void *help(void *argument)
{
	struct helper *h = helping = argument;

	if (sigsetjmp(h->out, 1) != 0)
		return NULL;
	block_for_all(h);
	/* The turn is of those ahead. */
	if (h->count == 0 && h->lock->wait.claim > 0)
		flock(h->lock->fd, LOCK_UN);
	h->over_at = clock_now();
	atomic_store(&h->over, true);
	wakeup_send(h->told_fd);
	return NULL;
}

static void start(struct waiting *w, const int64_t *serials, int count, enum record_byte byte)
{
	struct helper *h = &w->helpers[w->count];
	pthread_attr_t attributes;

	*h = (struct helper){.lock = w->lock,
		.serials = serials,
		.count = count,
		.byte = byte,
		.told_fd = w->told_fd};
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	if (thread_start(&h->thread, &attributes, help, h) == 0)
		w->count++;
	else
		look_within(&w->lock->wait, POLL_EVERY);
	pthread_attr_destroy(&attributes);
}

static void start_all(struct waiting *w)
{
	const struct file_wait *wait = &w->lock->wait;
	int each = wait->any ? 1 : wait->holder_count;

	if (wait->flock)
		start(w, NULL, 0, BYTE_HOLDER);
	for (int i = 0; i < wait->holder_count; i += each)
		start(w, &wait->holders[i], each, BYTE_HOLDER);
	if (wait->ahead != 0)
		start(w, &wait->ahead, 1, BYTE_QUEUE);
}

static void end_all(struct waiting *w)
{
	struct file_lock *f = w->lock;

	for (int i = 0; i < w->count; i++) {
		struct helper *h = &w->helpers[i];

		atomic_store(&h->ends, true);
		if (!atomic_load(&h->over))
			pthread_kill(h->thread, NUDGE);
		pthread_join(h->thread, NULL);
		if (h->count > 0)
			continue;
		f->flocked = atomic_load(&h->over) && f->wait.claim == 0;
		if (!f->flocked)
			flock(f->fd, LOCK_UN); /* the nudge may have come too late */
	}
}

/* A helper has told: whether we may have the lock now. If others are ahead of us, they are to go
 * first, and we look when each of them has had its time. An empty place ahead says nothing about
 * the lock. */
static bool may_be_next(const struct waiting *w)
{
	struct file_wait *wait = &w->lock->wait;

	for (int i = 0; i < w->count; i++) {
		const struct helper *h = &w->helpers[i];

		if (!atomic_load(&h->over))
			continue;
		if (wait->claim == 0 || wait->partial || h->byte == BYTE_QUEUE)
			return true;
		if (h->over_at < wait->free_at)
			wait->free_at = h->over_at;
	}
	if (wait->free_at != NANOS_NEVER && wait->free_at + wait->claim < wait->look_at)
		wait->look_at = wait->free_at + wait->claim;
	return false;
}

/* --- The wait --------------------------------------------------------------------------------- */

static enum lock_result wait_for_any(struct waiting *w, struct deadline *deadline)
{
	const struct file_wait *wait = &w->lock->wait;
	struct pollfd fds[] = {{0}, {.fd = w->told_fd, .events = POLLIN},
		{.fd = w->removed_fd, .events = POLLIN},
		{.fd = wait->bell ? wait->bell_fd : -1}}; /* POLLHUP */

	for (;;) {
		struct deadline look = {.until = wait->look_at, .cancel_fd = deadline->cancel_fd};
		bool looks = look.until < deadline->until;

		switch (deadline_wait_any(looks ? &look : deadline, fds, 4)) {
		case DEADLINE_CANCELLED:
			return LOCK_CANCELLED;
		case DEADLINE_OVER:
			return looks ? LOCK_GRANTED : LOCK_TIMEOUT;
		case DEADLINE_READY:
			break;
		}
		wakeup_clear(w->told_fd);
		if (fds[1].revents == 0 || may_be_next(w))
			return LOCK_GRANTED;
	}
}

enum lock_result file_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct file_lock *f = (struct file_lock *)lock;
	struct waiting w = {.lock = f, .told_fd = wakeup_open()};
	struct sigaction before;
	enum lock_result result;

	(void)failure;
	if (f->request.watched || (f->wait.any && f->wait.partial))
		look_within(&f->wait, LOOK_EVERY);
	if (w.told_fd < 0)
		look_within(&f->wait, POLL_EVERY);
	watch_folder(&w);
	sigaction(NUDGE, &(struct sigaction){.sa_handler = leave}, &before);
	start_all(&w);
	result = wait_for_any(&w, &deadline);
	end_all(&w);
	sigaction(NUDGE, &before, NULL);
	leave_folder(&w);
	if (w.told_fd >= 0)
		close(w.told_fd);
	return f->flocked ? LOCK_GRANTED : result;
}
