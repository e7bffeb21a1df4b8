#include "supervise/renewal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/message.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "supervise/lease.h"
#include "supervise/release_terms.h"

#define TRY_LIMIT   (3 * NANOS_PER_SEC)  /* one try, reconnecting included */
#define TRY_LEAST   (250 * NANOS_PER_MS) /* for one that is noticed late to be over */
#define PAUSE_LEAST (100 * NANOS_PER_MS) /* after a try that failed */
#define PAUSE_MORE  (200 * NANOS_PER_MS) /* at most on top, so that hosts do not come in step */

struct renewal {
	struct lock *lock; /* the thread's, from start to finish */
	struct lease *lease;
	int wakeup_fd; /* the keeper's */
	int finish_fd; /* owned; readable: release the lock and end */
	int done_fd;   /* owned; readable: answer is there */
	int owner_fd;  /* owned; readable: this process is the owner now */
	int timer;     /* owned */
	bool threaded; /* the thread runs; else the four above are -1 */
	pthread_t thread;
	bool lost;                          /* nothing is left to renew */
	bool failing;                       /* a warning was given since the last success */
	struct release_terms release_terms; /* written before finish_fd, read after it */
	nanos release_until;
	struct lock_answer answer; /* written before done_fd, read after it */
};

/* Until a renewal is due, the connection drops or the owner changes (due as well), or the end:
 * true.
 */
static bool wait_for_finish(struct renewal *r, nanos due)
{
	struct pollfd fds[] = {
		{.fd = r->finish_fd, .events = POLLIN},
		{.fd = r->timer, .events = POLLIN},
		{.fd = r->lost ? -1 : lock_watch_fd(r->lock), .events = POLLIN},
		{.fd = r->lost ? -1 : r->owner_fd, .events = POLLIN},
	};

	(void)poll(fds, 4, clock_timer_set(r->timer, due));
	clock_timer_clear(r->timer);
	if (fds[3].revents) {
		wakeup_clear(r->owner_fd);
		owner_pass_on(&r->lease->owner);
	}
	return fds[0].revents != 0;
}

static void record_success(struct renewal *r, const struct lock_answer *answer)
{
	atomic_store(&r->lease->valid_until, lease_valid_until(&r->lease->terms, answer->asked_at));
	if (answer->flawed)
		message_say(MESSAGE_WARNING, "%s", answer->failure.text);
	if (answer->result == LOCK_SET_AGAIN) {
		atomic_fetch_add(&r->lease->reclaimed, 1);
		message_say(MESSAGE_WARNING,
			"the server had lost the lock; nobody came between, it is set again");
	} else {
		message_say(r->failing ? MESSAGE_INFO : MESSAGE_DEBUG, "the lock is renewed%s",
			r->failing ? " again" : "");
	}
	r->failing = false;
}

static void record_failure(struct renewal *r, const struct lock_answer *answer)
{
	if (!r->failing)
		message_say(MESSAGE_WARNING,
			"cannot renew the lock (%s); trying again until it cannot be proved any "
			"longer",
			answer->result == LOCK_FAILED ? answer->failure.text : "no answer");
	r->failing = true;
}

nanos renewal_try(struct renewal *r, nanos until)
{
	struct lock_answer *answer = &r->answer;
	nanos every = lease_renew_every(&r->lease->terms);
	struct deadline deadline = {
		.until = until,
		.cancel_fd = r->finish_fd,
		.least = r->threaded ? TRY_LEAST
				     : 0, /* by hand it could be too late to stop COMMAND */
	};

	lock_renew(r->lock, deadline, answer);
	switch (answer->result) {
	case LOCK_GRANTED:
	case LOCK_SET_AGAIN:
		record_success(r, answer);
		return clock_after(answer->asked_at, every);
	case LOCK_LOST:
		r->lost = true;
		atomic_store(&r->lease->lost, true);
		wakeup_send(r->wakeup_fd);
		return NANOS_NEVER;
	case LOCK_CANCELLED:
		return clock_now();
	default:
		record_failure(r, answer);
		return clock_now() + PAUSE_LEAST + clock_jitter(PAUSE_MORE);
	}
}

static void *renew_until_finished(void *argument)
{
	struct renewal *r = argument;
	nanos every = lease_renew_every(&r->lease->terms);
	nanos due = clock_now();

	while (!wait_for_finish(r, due))
		due = renewal_try(r, clock_now() + (every < TRY_LIMIT ? every : TRY_LIMIT));
	wakeup_clear(r->finish_fd);
	lock_release(r->lock, &r->release_terms, release_terms_limit(r->release_until), &r->answer);
	wakeup_send(r->done_fd);
	return NULL;
}

static void close_all(struct renewal *r)
{
	int *const fds[] = {&r->finish_fd, &r->done_fd, &r->owner_fd, &r->timer};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

struct renewal *renewal_open(struct lock *lock, struct lease *lease, int wakeup_fd)
{
	/* Not allocated: memory may be short by the time it is needed. */
	static struct renewal renewal;

	renewal.lock = lock;
	renewal.lease = lease;
	renewal.wakeup_fd = wakeup_fd;
	renewal.finish_fd = renewal.done_fd = renewal.owner_fd = renewal.timer = -1;
	return &renewal;
}

bool renewal_start(struct renewal *r)
{
	int error;

	r->finish_fd = wakeup_open();
	r->done_fd = wakeup_open();
	r->owner_fd = wakeup_open();
	r->timer = clock_timer_open();
	if (r->finish_fd >= 0 && r->done_fd >= 0 && r->owner_fd >= 0 && r->timer >= 0) {
		r->threaded = true; /* the thread reads it */
		error = thread_start(&r->thread, NULL, renew_until_finished, r);
	} else {
		error = errno;
	}
	if (error == 0)
		return true;
	r->threaded = false;
	close_all(r);
	errno = error;
	return false;
}

void renewal_pass_on(struct renewal *r)
{
	wakeup_send(r->owner_fd);
}

bool renewal_finish(struct renewal *r, struct lock *lock, const struct release_terms *release_terms,
	nanos until, struct lock_answer *answer)
{
	struct pollfd done = {.events = POLLIN};

	if (!r || !r->threaded) {
		lock_release(lock, release_terms, release_terms_limit(until), answer);
		return true;
	}
	done.fd = r->done_fd;
	r->release_terms = *release_terms;
	r->release_until = until;
	wakeup_send(r->finish_fd);
	while (poll(&done, 1, clock_poll_ms(until) + 100) < 0 && errno == EINTR)
		continue;
	if (!done.revents) {
		*answer = (struct lock_answer){.result = LOCK_TIMEOUT};
		return false;
	}
	pthread_join(r->thread, NULL);
	*answer = r->answer;
	close_all(r);
	return true;
}
