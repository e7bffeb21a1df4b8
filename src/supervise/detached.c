#include "supervise/detached.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/message.h"
#include "lock/asking.h"
#include "lock/holder.h"
#include "process/caller_state.h"
#include "process/process.h"
#include "supervise/task.h"
#include "supervise/notify.h"
#include "supervise/outcome.h"
#include "supervise/wait_line.h"
#include "supervise/survivors.h"

struct detached {
	const struct task *run;
	struct outcome *outcome;
	struct wait_line line;
	struct notify notify;
	int signal_fd, timer;
	int both_fd;    /* readable if either is */
	int signal;     /* the signal that has ended it; 0 */
	bool is_around; /* such a dlock was found */
	bool delivered; /* the lock was had, though perhaps the caller did not learn of it */
};

static bool open_all(struct detached *d)
{
	struct epoll_event readable = {.events = EPOLLIN};

	d->signal_fd = signalfd(-1, &d->run->caller_state->ending, SFD_CLOEXEC | SFD_NONBLOCK);
	d->timer = clock_timer_open();
	d->both_fd = epoll_create1(EPOLL_CLOEXEC);
	return d->signal_fd >= 0 && d->timer >= 0 && d->both_fd >= 0 &&
	       epoll_ctl(d->both_fd, EPOLL_CTL_ADD, d->timer, &readable) == 0 &&
	       epoll_ctl(d->both_fd, EPOLL_CTL_ADD, d->signal_fd, &readable) == 0;
}

static void set_timer(const struct detached *d)
{
	clock_timer_set(d->timer, wait_line_due(&d->line));
}

static void denied(void *context, const struct lock_answer *answer)
{
	struct detached *d = context;

	wait_page_tell(&d->run->lease->waits, answer);
	notify_wait(&d->notify, &d->run->lease->waits);
	set_timer(d);
}

static void unreached(void *context, const struct failure *why)
{
	struct detached *d = context;

	wait_page_tell_unreached(&d->run->lease->waits, why);
	notify_wait(&d->notify, &d->run->lease->waits);
}

static enum asking_news read_news(void *context)
{
	struct detached *d = context;
	struct signalfd_siginfo info;
	bool learnt = false;

	if (read(d->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		d->signal = (int)info.ssi_signo;
	clock_timer_clear(d->timer);
	if (d->signal != 0)
		return ASKING_ENDS;
	d->is_around = wait_line_attend(&d->line, &learnt) != NULL;
	set_timer(d);
	if (d->is_around)
		return ASKING_ENDS;
	return learnt ? ASKING_BEGINS_ANEW : ASKING_GOES_ON;
}

/* ---- the caller learns of the lock, or it is released ---- */

/* NFS finds a full disk when a descriptor is closed, any one of the file's. */
static bool is_kept(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	return copy >= 0 && close(copy) == 0;
}

/* A reader may be slow, or stopped: a signal ends that as it ends the wait. */
static enum lock_result write_out(
	const char *text, size_t length, struct deadline deadline, struct failure *failure)
{
	while (length > 0) {
		enum deadline_end end = deadline_wait(&deadline, STDOUT_FILENO, POLLOUT);
		ssize_t written;

		if (end != DEADLINE_READY)
			return end == DEADLINE_CANCELLED ? LOCK_CANCELLED : LOCK_TIMEOUT;
		written = write(STDOUT_FILENO, text, length);
		if (written < 0 && errno != EAGAIN && errno != EINTR)
			break;
		text += written > 0 ? written : 0;
		length -= written > 0 ? (size_t)written : 0;
	}
	if (length == 0 && is_kept(STDOUT_FILENO))
		return LOCK_GRANTED;
	failure_set(failure, EXIT_SYSTEM, "cannot print the token: %s; the lock is released",
		strerror(errno));
	return LOCK_FAILED;
}

static enum lock_result print_token(const struct detached *d, struct lock_answer *granted)
{
	struct deadline now = {.cancel_fd = d->signal_fd};
	struct deadline limit = {.cancel_fd = d->signal_fd,
		.until = lease_valid_until(&d->run->lease->terms, granted->asked_at)};
	char line[LOCK_TOKEN_SIZE + 24];

	if (clock_now() >= limit.until) {
		failure_set(&granted->failure, EXIT_UNREACHABLE, LEASE_TOO_LATE);
		return LOCK_TIMEOUT;
	}
	/* If a signal came before the token was out, no process is left to release the lock. */
	if (deadline_wait(&now, -1, 0) == DEADLINE_CANCELLED)
		return LOCK_CANCELLED;
	snprintf(line, sizeof(line), "%s %" PRIu64 "\n", lock_token(d->run->lock), granted->fence);
	return write_out(line, strlen(line), limit, &granted->failure);
}

static enum lock_result use(void *context, struct lock_answer *granted)
{
	struct detached *d = context;

	wait_page_end(&d->run->lease->waits);
	holder_say_grant(granted);
	d->delivered = true;
	return print_token(d, granted);
}

static const struct asking_ops detached_asking = {
	.unreached = unreached,
	.denied = denied,
	.news = read_news,
	.use = use,
};

/* The caller is not to wait until all is taken back: a process of its own goes on trying. */
static void leave_behind(struct detached *d, struct asking *asking)
{
	char span[DURATION_TEXT];

	if (process_fork(HANDOFF_PROGRAM) == 0) {
		setsid();
		caller_state_close(d->run->caller_state);
		asking_withdraw(asking, LEASE_RELEASE_LIMIT, LOCK_VERIFY_LIMIT);
		_exit(0);
	}
	if (d->delivered)
		message_say(MESSAGE_WARNING,
			"the lock could not be released; it frees itself within %s",
			duration_format(d->run->lease->terms.ttl, span));
	else if (asking->may_hold)
		outcome_say_left(d->outcome, d->run->lease->terms.ttl);
}

static void conclude(struct detached *d, enum lock_result result, struct asking *asking,
	const struct lock_answer *answer, const struct failure *failure)
{
	struct outcome *outcome = d->outcome;

	if (result == LOCK_GRANTED) {
		outcome->kind = OUTCOME_ACQUIRED;
		outcome->answer = *answer;
		outcome->waited = answer->granted_at - d->run->started;
		lock_verify(d->run->lock, LOCK_VERIFY_GLANCE);
		return;
	}
	asking_give_up(asking, result);
	if (result == LOCK_CANCELLED) {
		outcome->kind = OUTCOME_CANCELLED;
		outcome->end_signal = d->signal;
		outcome->waited = clock_now() - d->run->started;
	} else {
		outcome_deny(outcome, result, d->run->wait != 0, &asking->denial, failure);
		outcome->waited = clock_now() - d->run->started;
		outcome->answered_at = asking->denied_at;
	}
	if (asking->outstanding)
		leave_behind(d, asking);
}

static void acquire(struct detached *d)
{
	const struct task *run = d->run;
	static struct asking asking;      /* large, */
	static struct lock_answer answer; /* as this is */
	enum lock_result result;
	struct failure failure;

	if (!open_all(d)) {
		failure_set(&failure, EXIT_SYSTEM, "%s", strerror(errno));
		outcome_fail(d->outcome, &failure);
		return;
	}
	wait_line_open(&d->line, run, &d->notify);
	asking = (struct asking){.lock = run->lock,
		.ops = &detached_asking,
		.context = d,
		.nesting = run->nesting,
		.self = run->request->self,
		.started = run->started,
		.wait = run->wait,
		.cancel_fd = d->both_fd};
	result = asking_run(&asking, &answer, &failure);
	wait_page_end(&run->lease->waits);
	if (result == LOCK_AROUND || (result == LOCK_CANCELLED && d->is_around)) {
		result = LOCK_FAILED;
		failure_set(&failure, EXIT_DEADLOCK,
			"waiting would deadlock: a dlock around this one holds it, and a detached "
			"lock is never inside another");
	}
	conclude(d, result, &asking, &answer, &failure);
}

void detached_acquire(const struct task *run, struct outcome *outcome)
{
	struct detached d = {.run = run, .outcome = outcome};

	notify_open(&d.notify, run->name, run->notify_ready);
	acquire(&d);
	notify_end(&d.notify, outcome);
}
