/* Waiting for what is in the way: see file_lock.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/newer_libc.h"
#include "base/wakeup.h"
#include "file/file_lock.h"

#define STACK      (64 * 1024)
#define NUDGE      SIGURG               /* ends a thread's system call; ignored by default */
#define NUDGE_US   50                   /* until the next, as one may come before that call */
#define LOOK_EVERY NANOS_PER_SEC        /* if a user looks on, or not all in the way is watched */
#define POLL_EVERY (100 * NANOS_PER_MS) /* no thread is to be had */
#define LEAVE_IT   (50 * NANOS_PER_MS)  /* for the one ahead of us, to go first */

bool file_is_removed(const struct file_lock *f)
{
	return folder_has_lost(f->fd) || folder_has_lost(f->record.fd) ||
	       (f->wait.bell_fd >= 0 && folder_has_lost(f->wait.bell_fd));
}

/* --- Time, signals, and the folder ------------------------------------------------------------ */

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
	/* A file may have been removed before that. */
	if (file_is_removed(f))
		wakeup_send(told);
}

/* Lets the time pass. fd: ends that, too; -1: none. */
static enum lock_result wait_for_time(struct file_wait *wait, int fd)
{
	for (;;) {
		struct deadline limit = wait->deadline;

		if (wait->due < limit.until)
			limit.until = wait->due;
		switch (deadline_wait(&limit, fd, POLLIN)) {
		case DEADLINE_CANCELLED:
			return LOCK_CANCELLED;
		case DEADLINE_READY:
			return LOCK_GRANTED;
		case DEADLINE_OVER:
			break;
		}
		if (clock_now() >= wait->due)
			return LOCK_GRANTED;
		if (deadline_is_over(&wait->deadline))
			return LOCK_TIMEOUT;
	}
}

/* --- What is in the way ----------------------------------------------------------------------- */

/* Until it is so no longer; false with EINTR. */
static bool block(struct watch *w)
{
	struct file_lock *f = w->lock;
	struct pollfd bell = {.fd = w->bell_fd}; /* POLLHUP */

	switch (w->what.kind) {
	case OBSTACLE_FLOCK:
		return flock(f->fd, f->wait.mode == LOCK_EXCLUSIVE ? LOCK_EX : LOCK_SH) == 0;
	case OBSTACLE_BYTE:
		return record_await(f->record.fd, w->what.serial, w->what.byte, w->what.waiting);
	case OBSTACLE_BELL:
		return poll(&bell, 1, -1) > 0;
	default:
		watch_folder(f);
		atomic_store(&f->wait.result, wait_for_time(&f->wait, f->wait.wakeup_fd));
		told = -1;
		return true;
	}
}

/* Blocks until what is in the way is so no longer: true. false: it is to `end` before. */
static bool block_until(struct watch *w, const atomic_bool *end)
{
	while (!atomic_load(end)) {
		if (block(w))
			return true;
		if (errno != EINTR)
			usleep(100000); /* no memory for a lock in the kernel, say */
	}
	return false;
}

/* The obstacle is in the way no longer: since when, or since when another thread has known it. An
 * empty place ahead says nothing about the lock. */
static nanos note_free(const struct watch *w)
{
	struct file_wait *wait = &w->lock->wait;
	nanos now = clock_now(), before = atomic_load(&wait->free_at);

	if (w->what.kind == OBSTACLE_BYTE && w->what.byte == BYTE_QUEUE)
		return now;
	while (now < before && !atomic_compare_exchange_weak(&wait->free_at, &before, now))
		continue;
	return now < before ? now : before;
}

static void *watch(void *argument)
{
	struct watch *w = argument;
	struct file_wait *wait = &w->lock->wait;
	struct pollfd stop = {.fd = wait->wakeup_fd, .events = POLLIN};
	nanos since = 0;
	bool is_free;
	sigset_t nudge;

	sigemptyset(&nudge);
	sigaddset(&nudge, NUDGE);
	pthread_sigmask(SIG_UNBLOCK, &nudge, NULL);
	is_free = block_until(w, &wait->stop);
	/* The turn is of those ahead. */
	if (is_free && w->what.kind == OBSTACLE_FLOCK)
		flock(w->lock->fd, LOCK_UN);
	if (is_free && w->patience > 0)
		since = note_free(w);
	atomic_store(&w->over, true);
	if (is_free && w->patience > 0)
		poll(&stop, 1, clock_poll_ms(since + w->patience));
	atomic_store(&wait->over, true);
	while (!atomic_load(&wait->stop)) {
		pthread_kill(wait->waiter, NUDGE);
		usleep(NUDGE_US);
	}
	return NULL;
}

/* --- The threads ------------------------------------------------------------------------------ */

/* If the waiter's own thread waits for the place of the one ahead, that one is to go first, and its
 * going ends our wait too. To look before it has gone would be in its way. A waiter that is further
 * back looks when all those have had their time. */
static nanos patience_for(const struct file_wait *wait, const struct obstacle *what)
{
	const struct obstacle *first = &wait->obstacles[0];

	if (what->kind == OBSTACLE_TIME || first->kind != OBSTACLE_BYTE ||
		first->byte != BYTE_QUEUE)
		return 0;
	if (what->kind == OBSTACLE_FLOCK || what->waiting == WAIT_IN_TURN)
		return wait->claim;
	return LEAVE_IT;
}

static bool start(struct file_lock *f, const struct obstacle *what)
{
	struct file_wait *wait = &f->wait;
	struct watch *w = &wait->threads[wait->thread_count];
	pthread_attr_t attributes;
	bool good;

	*w = (struct watch){.lock = f, .what = *what, .bell_fd = wait->bell_fd};
	w->patience = patience_for(wait, what);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK);
	good = pthread_create(&w->thread, &attributes, watch, w) == 0;
	pthread_attr_destroy(&attributes);
	wait->thread_count += good;
	return good;
}

static void look_within(struct file_wait *wait, nanos span)
{
	nanos then = clock_now() + span;

	if (then < wait->look_at)
		wait->look_at = then;
}

/* A thread for each obstacle but the first, and one for time and signals. False: that cannot be
 * had. */
static bool start_all(struct file_lock *f)
{
	const struct obstacle time = {.kind = OBSTACLE_TIME};
	struct file_wait *wait = &f->wait;
	bool all = true;

	wait->waiter = pthread_self();
	atomic_store(&wait->stop, false);
	atomic_store(&wait->over, false);
	atomic_store(&wait->result, LOCK_GRANTED);
	wait->pid = getpid();
	sigaction(NUDGE, &(struct sigaction){.sa_handler = tell}, &wait->before);
	for (int i = 1; all && i < wait->count; i++)
		all = start(f, &wait->obstacles[i]);
	if (!all)
		look_within(wait, POLL_EVERY);
	wait->due = wait->look_at;
	return start(f, &time);
}

/* The threads end soon after that, and need nothing more of this one. */
static void tell_to_stop(struct file_wait *wait)
{
	atomic_store(&wait->stop, true);
	wakeup_send(wait->wakeup_fd);
	for (int i = 0; i < wait->thread_count; i++) {
		struct watch *w = &wait->threads[i];

		/* The first signal may come before the thread blocks. */
		while (w->what.kind != OBSTACLE_TIME && !atomic_load(&w->over)) {
			pthread_kill(w->thread, NUDGE);
			usleep(NUDGE_US);
		}
	}
	sigaction(NUDGE, &wait->before, NULL);
}

/* A process that was forked meanwhile has none of the threads. */
void file_wait_end(struct file_wait *wait)
{
	if (wait->wakeup_fd < 0)
		return;
	for (int i = 0; i < wait->thread_count && wait->pid == getpid(); i++)
		pthread_join(wait->threads[i].thread, NULL);
	wait->thread_count = 0;
	close(wait->wakeup_fd);
	wait->wakeup_fd = -1;
}

/* Waits for the first obstacle, on the waiter's own thread. */
static enum lock_result wait_for_first(struct file_lock *f)
{
	struct file_wait *wait = &f->wait;
	struct watch first = {.lock = f, .what = wait->obstacles[0], .bell_fd = wait->bell_fd};
	sigset_t nudge, before;
	bool is_free;

	sigemptyset(&nudge);
	sigaddset(&nudge, NUDGE);
	pthread_sigmask(SIG_UNBLOCK, &nudge, &before);
	is_free = block_until(&first, &wait->over);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	tell_to_stop(wait);
#ifdef __SANITIZE_THREAD__
	/* ThreadSanitizer knows no processes, and takes what the keeper does for a race with these
	 * threads. */
	file_wait_end(wait);
#endif
	f->flocked = f->flocked || (is_free && first.what.kind == OBSTACLE_FLOCK);
	if (is_free && first.what.waiting == WAIT_AND_KEEP)
		f->record.kept = first.what.serial;
	return is_free ? LOCK_GRANTED : (enum lock_result)atomic_load(&wait->result);
}

enum lock_result file_wait(struct lock *lock, struct deadline deadline, struct failure *failure)
{
	struct file_lock *f = (struct file_lock *)lock;
	struct file_wait *wait = &f->wait;

	(void)failure;
	file_wait_end(wait);
	record_drop_kept(&f->record);
	if (f->request.watched || wait->count == OBSTACLES)
		look_within(wait, LOOK_EVERY);
	wait->deadline = deadline;
	wait->wakeup_fd = wakeup_open();
	if (wait->wakeup_fd >= 0 && start_all(f))
		return wait_for_first(f);
	if (wait->thread_count > 0)
		tell_to_stop(wait);
	look_within(wait, POLL_EVERY);
	wait->due = wait->look_at;
	return wait_for_time(wait, -1);
}
