#include "renewal.h"

#include <bsd/stdlib.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "lease.h"
#include "lock.h"
#include "message.h"
#include "news.h"

#define TRY_LIMIT   (3 * NANOS_PER_SEC)  /* one try, reconnecting included */
#define PAUSE_LEAST (100 * NANOS_PER_MS) /* after a try that failed */
#define PAUSE_MORE  200 /* ms at random on top, so that hosts do not come in step */

struct renewal {
	struct lock *lock; /* the thread's, from start to finish */
	struct lease *lease;
	struct lease_terms terms;
	int news_fd;   /* the keeper's */
	int finish_fd; /* owned; readable: give the lock back and end */
	int done_fd;   /* owned; readable: answer is there */
	int timer;     /* owned */
	pthread_t thread;
	bool failing;                /* a warning was given since the last success */
	struct lock_parting parting; /* written before finish_fd, read after it */
	nanos release_until;
	struct lock_answer answer; /* written before done_fd, read after it */
};

/* Until a renewal is due, the connection drops (due as well), or the end: true. */
static bool wait_for_finish(struct renewal *r, nanos due)
{
	struct pollfd fds[] = {
		{.fd = r->finish_fd, .events = POLLIN},
		{.fd = r->timer, .events = POLLIN},
		{.fd = due == NANOS_NEVER ? -1 : lock_watch_fd(r->lock), .events = POLLIN},
	};

	clock_timer_set(r->timer, due);
	while (poll(fds, 3, -1) < 0 && errno == EINTR)
		continue;
	clock_timer_clear(r->timer);
	return fds[0].revents != 0;
}

static void note_success(struct renewal *r, const struct lock_answer *answer)
{
	atomic_store(&r->lease->valid_until, lease_valid_until(&r->terms, answer->asked_at));
	if (answer->flawed)
		message_say(MESSAGE_WARNING, "%s", answer->failure.text);
	if (answer->result == LOCK_SET_AGAIN) {
		atomic_fetch_add(&r->lease->reclaimed, 1);
		message_say(MESSAGE_WARNING,
			"the server had lost the lock; nobody came between, it is set again");
	} else if (r->failing) {
		message_say(MESSAGE_INFO, "the lock is renewed again");
	}
	r->failing = false;
}

static void note_failure(struct renewal *r, const struct lock_answer *answer)
{
	if (!r->failing)
		message_say(MESSAGE_WARNING,
			"cannot renew the lock (%s); trying again until it cannot be proved any "
			"longer",
			answer->result == LOCK_FAILED ? answer->failure.text : "no answer");
	r->failing = true;
}

/* One try; returns when the next is due. */
static nanos renew(struct renewal *r)
{
	struct lock_answer *answer = &r->answer;
	nanos every = lease_renew_every(&r->terms);
	struct patience patience = {
		.until = clock_now() + (every < TRY_LIMIT ? every : TRY_LIMIT),
		.cancel_fd = r->finish_fd,
	};

	lock_renew(r->lock, patience, answer);
	switch (answer->result) {
	case LOCK_GRANTED:
	case LOCK_SET_AGAIN:
		note_success(r, answer);
		return answer->asked_at + every;
	case LOCK_LOST:
		atomic_store(&r->lease->lost, true);
		news_ring(r->news_fd);
		return NANOS_NEVER;
	case LOCK_CANCELLED:
		return clock_now();
	default:
		note_failure(r, answer);
		return clock_now() + PAUSE_LEAST + arc4random_uniform(PAUSE_MORE) * NANOS_PER_MS;
	}
}

static void *renew_until_finished(void *argument)
{
	struct renewal *r = argument;
	nanos due = clock_now();

	while (!wait_for_finish(r, due))
		due = renew(r);
	news_hear(r->finish_fd);
	lock_release(r->lock, &r->parting, (struct patience){r->release_until, -1}, &r->answer);
	news_ring(r->done_fd);
	return NULL;
}

static void renewal_free(struct renewal *r)
{
	if (r->finish_fd >= 0)
		close(r->finish_fd);
	if (r->done_fd >= 0)
		close(r->done_fd);
	if (r->timer >= 0)
		close(r->timer);
	free(r);
}

struct renewal *renewal_start(
	struct lock *lock, struct lease *lease, const struct lease_terms *terms, int news_fd)
{
	struct renewal *r = calloc(1, sizeof(*r));
	sigset_t all, before;
	int error = ENOMEM;

	if (!r)
		return NULL;
	*r = (struct renewal){.lock = lock, .lease = lease, .terms = *terms, .news_fd = news_fd};
	r->finish_fd = news_open();
	r->done_fd = news_open();
	r->timer = clock_timer_open();
	if (r->finish_fd >= 0 && r->done_fd >= 0 && r->timer >= 0) {
		sigfillset(&all); /* signals are the main thread's */
		pthread_sigmask(SIG_SETMASK, &all, &before);
		error = pthread_create(&r->thread, NULL, renew_until_finished, r);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	} else {
		error = errno;
	}
	if (error == 0)
		return r;
	renewal_free(r);
	errno = error;
	return NULL;
}

bool renewal_finish(struct renewal *r, const struct lock_parting *parting, nanos until,
	struct lock_answer *answer)
{
	struct pollfd done = {.fd = r->done_fd, .events = POLLIN};

	r->parting = *parting;
	r->release_until = until;
	news_ring(r->finish_fd);
	while (poll(&done, 1, clock_poll_ms(until) + 100) < 0 && errno == EINTR)
		continue;
	if (!done.revents) {
		*answer = (struct lock_answer){.result = LOCK_TIMEOUT};
		return false;
	}
	pthread_join(r->thread, NULL);
	*answer = r->answer;
	renewal_free(r);
	return true;
}
