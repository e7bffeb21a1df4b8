#include "lock/asking.h"

#include <poll.h>
#include <stddef.h>

#include "base/message.h"
#include "lock/nesting.h"

#define FIRST_ANSWER (5 * NANOS_PER_SEC)  /* a server that has never answered gets no longer */
#define UNUSED_LIMIT (2 * NANOS_PER_SEC)  /* for giving back a grant that could not be used */
#define WAIT_LEAST   (80 * NANOS_PER_MS)  /* for a step of the last try if -w is over by then */
#define LOSS_UNTOLD  NANOS_PER_SEC        /* a failover that was prepared is over by then */
#define SHORT_WAIT   (200 * NANOS_PER_MS) /* nothing will have been learnt in it by itself */
#define CALLER_LOOKS NANOS_PER_SEC        /* within that, beside the wait, for a dlock around us */
#define CANCEL_LIMIT (500 * NANOS_PER_MS) /* taking the request back if it is not late yet, */
#define LATE_LIMIT   (80 * NANOS_PER_MS)  /* and if it is: -w is kept to 100 ms */
#define RETRY_LEAST  50 /* ms between tries to reach a server that has answered before */
#define RETRY_MORE   200

static const struct failure no_answer = {
	.code = EXIT_UNREACHABLE, .text = "no answer from the server"};

static nanos end_of_wait(const struct asking *a)
{
	return clock_after(a->started, a->wait);
}

/* How long the server may take: to the end of -w; 5 s if it has never answered, unless all that it
 * needs is time. */
static nanos patience_end(const struct asking *a)
{
	nanos first = a->began + FIRST_ANSWER;
	nanos end = a->wait == 0 ? first : end_of_wait(a);

	if (a->answered || first > end || (a->passes && end != NANOS_NEVER))
		return end;
	return first;
}

/* -n waits for nothing else than --settle. */
static bool waits_to_settle(const struct asking *a, const struct lock_answer *answer)
{
	return a->wait == 0 && answer->result == LOCK_BUSY && answer->settling_ms > 0;
}

/* With -n that is at once, unless a server that has not answered yet needs nothing but time. */
static bool is_late(const struct asking *a, const struct lock_answer *answer)
{
	if (a->wait == 0)
		return !waits_to_settle(a, answer) && (a->answered || !a->passes);
	return clock_now() >= end_of_wait(a);
}

/* The time for a step that finds itself late: a host may stand still, or starve dlock, from before
 * it asks until after the answer is there. With -w it is no more than nobody notices. */
static nanos step_least(const struct asking *a)
{
	return patience_end(a) == a->began + FIRST_ANSWER ? DEADLINE_LEAST : WAIT_LEAST;
}

static struct deadline deadline(const struct asking *a)
{
	return (struct deadline){
		.until = patience_end(a), .cancel_fd = a->cancel_fd, .least = step_least(a)};
}

/* A server that refuses us has granted nothing, and will not be asked any more. */
static bool has_refused(const struct asking *a)
{
	return a->trouble.code == EXIT_REFUSED || a->trouble.code == EXIT_USAGE;
}

void asking_withdraw(struct asking *a, nanos limit, nanos verify)
{
	static struct lock_answer answer; /* large, and seldom needed */
	struct deadline limited = {
		.until = clock_now() + limit, .cancel_fd = -1, .least = WAIT_LEAST};

	if (!a->outstanding)
		return;
	lock_release(a->lock, NULL, limited, &answer);
	lock_verify(a->lock, verify);
	a->outstanding =
		!has_refused(a) && (answer.result == LOCK_TIMEOUT || answer.result == LOCK_FAILED);
}

void asking_give_up(struct asking *a, enum lock_result result)
{
	bool late = result == LOCK_FAILED || (result == LOCK_BUSY && a->wait != 0);

	asking_withdraw(a, late ? LATE_LIMIT : CANCEL_LIMIT, LOCK_VERIFY_GLANCE);
}

/* A try that was cut off by -w says less than the one before it. */
static void record_trouble(struct asking *a, enum lock_result result, const struct failure *failure)
{
	if (failure->text[0] == '\0' || (result == LOCK_TIMEOUT && a->told))
		return;
	a->trouble = *failure;
	a->passes |= failure->passes;
	a->told = result != LOCK_TIMEOUT;
}

/* A connection that breaks is mended by the next try, once a server has answered or taken a
 * request; one that is refused from the start is not. */
static bool may_mend(const struct asking *a, const struct failure *failure)
{
	return failure->code == EXIT_UNREACHABLE && (a->answered || a->outstanding || a->passes);
}

/* A server that had answered does so no more. Says so once, if that goes on for a while. */
static void record_loss(struct asking *a, const struct failure *failure)
{
	if (a->lost_at == 0)
		a->lost_at = clock_now();
	if (a->loss_told || clock_now() - a->lost_at < LOSS_UNTOLD)
		return;
	a->loss_told = true;
	message_say(MESSAGE_WARNING, "the server is lost, and is tried again and again: %s",
		failure->text);
}

/* Says that it is back, if the user knows of its loss. */
static void record_answer(struct asking *a)
{
	if (a->loss_told)
		message_say(MESSAGE_WARNING, "the server answers again");
	a->answered = true;
	a->loss_told = false;
	a->lost_at = 0;
}

/* Before the next try to reach the server. A try may fail at once, again and again, and would never
 * come to look at cancel_fd itself. False: that ends it. */
static bool pause_for_retry(struct asking *a)
{
	struct pollfd cancel = {.fd = a->cancel_fd, .events = POLLIN};

	a->ops->unreached(a->context, &a->trouble);
	if (a->answered)
		record_loss(a, &a->trouble);
	return poll(&cancel, 1, RETRY_LEAST + (int)clock_jitter(RETRY_MORE)) <= 0 ||
	       a->ops->news(a->context) != ASKING_ENDS;
}

/* The time is over without the lock: another holds it, or no server has said so, at all or any
 * longer. Of several locks the first may be ours when the answer of the next is late. */
static enum lock_result end_in_time(const struct asking *a, struct failure *failure)
{
	if (a->denied_at != 0 && a->lost_at == 0)
		return LOCK_BUSY;
	*failure = a->trouble;
	return LOCK_FAILED;
}

/* After a step that did not succeed: true, to go on; else *result is the end. */
static bool may_go_on(struct asking *a, enum lock_result *result, const struct lock_answer *answer,
	struct failure *failure)
{
	record_trouble(a, *result, failure);
	switch (*result) {
	case LOCK_CANCELLED:
		return a->ops->news(a->context) != ASKING_ENDS;
	case LOCK_ALREADY:
	case LOCK_UNREPLICATED:
		return false;
	case LOCK_PART: /* a server that answers has as long for the next */
		record_answer(a);
		a->began = clock_now();
		if (a->wait == 0 || a->began < end_of_wait(a))
			return true;
		break;
	case LOCK_FAILED:
		if (!may_mend(a, failure))
			return false;
		break;
	default:
		break;
	}
	if (is_late(a, answer) || (!a->answered && clock_now() >= patience_end(a))) {
		*result = end_in_time(a, failure);
		return false;
	}
	if (*result != LOCK_FAILED || pause_for_retry(a))
		return true;
	*result = LOCK_CANCELLED;
	return false;
}

static void record_denial(struct asking *a, const struct lock_answer *answer)
{
	if (answer->result != LOCK_BUSY && answer->result != LOCK_ALREADY &&
		answer->result != LOCK_UNREPLICATED)
		return;
	record_answer(a);
	a->denial = *answer;
	a->denied_at = clock_now();
	lock_verify(a->lock, LOCK_VERIFY_GLANCE);
}

/* We would wait for ourselves. If the time is short, that is not found beside the wait; nor is it
 * there once the caller has looked. */
static bool is_around(struct asking *a, const struct lock_answer *answer)
{
	bool looks = a->wait == 0 || end_of_wait(a) - clock_now() < SHORT_WAIT ||
		     clock_now() - a->started > CALLER_LOOKS;

	return answer->result == LOCK_BUSY && nesting_has(a->nesting, a->self, answer, looks);
}

static void expect(const struct asking *a, nanos until)
{
	if (a->ops->expect)
		a->ops->expect(a->context, until);
}

/* Whether we have a lock, as far as is known: there was no answer, or one of several is busy. */
static bool may_hold(const struct lock_answer *answer)
{
	return answer->name != NULL || answer->result == LOCK_TIMEOUT ||
	       answer->result == LOCK_CANCELLED || answer->result == LOCK_FAILED;
}

/* One request, and its answer. If the server cannot be asked, there is no turn to wait for either:
 * its last answer may come from a server that has forgotten us since. */
static void ask(struct asking *a, struct lock_answer *answer)
{
	expect(a, patience_end(a));
	a->asked = true;
	lock_take(a->lock, deadline(a), answer);
	a->outstanding = a->outstanding || lock_may_be_asked(a->lock);
	a->may_hold = lock_may_be_asked(a->lock) && may_hold(answer);
}

/* A grant: true if it was used. Else *answer says why not, and it was given back. */
static bool use(struct asking *a, struct lock_answer *answer)
{
	enum lock_result result;

	record_answer(a);
	result = a->ops->use(a->context, answer);
	if (result == LOCK_GRANTED)
		return true;
	answer->result = result;
	asking_withdraw(a, UNUSED_LIMIT, LOCK_VERIFY_GLANCE);
	a->may_hold = a->outstanding;
	return false;
}

/* The settle time is over: from here on all is as for a -n that comes only now. */
static void begin_anew(struct asking *a)
{
	a->began = clock_now();
	a->answered = a->told = false;
	a->denied_at = 0;
	a->trouble = no_answer;
}

/* The wait itself: LOCK_GRANTED to ask, or why not. News may let it go on. */
static enum lock_result wait_once(struct asking *a, struct deadline limit, struct failure *failure)
{
	for (;;) {
		enum lock_result result = lock_wait(a->lock, limit, failure);

		if (result != LOCK_CANCELLED)
			return result;
		switch (a->ops->news(a->context)) {
		case ASKING_GOES_ON:
			break;
		case ASKING_BEGINS_ANEW:
			return LOCK_GRANTED;
		case ASKING_ENDS:
			return LOCK_CANCELLED;
		}
	}
}

/* A grant could not be used: the place is given up, and the next in the queue goes first. False:
 * the news are the end. */
static bool stand_aside(struct asking *a)
{
	struct pollfd cancel = {.fd = a->cancel_fd, .events = POLLIN};

	expect(a, NANOS_NEVER);
	asking_withdraw(a, UNUSED_LIMIT, LOCK_VERIFY_GLANCE);
	while (!a->ops->is_ready(a->context)) {
		(void)poll(&cancel, 1, -1);
		if (a->ops->news(a->context) == ASKING_ENDS)
			return false;
	}
	return true;
}

/* After a denial: true, to ask again; else *result is the end. */
static bool wait_for_turn(struct asking *a, const struct lock_answer *answer,
	enum lock_result *result, struct failure *failure)
{
	struct deadline limit = deadline(a);

	if (answer->result != LOCK_BUSY)
		return true;
	if (a->wait == 0)
		limit.until = NANOS_NEVER;
	expect(a, limit.until);
	a->ops->denied(a->context, answer);
	*result = wait_once(a, limit, failure);
	if (*result == LOCK_CANCELLED)
		return false;
	if (*result != LOCK_GRANTED)
		return may_go_on(a, result, answer, failure);
	if (a->wait == 0)
		begin_anew(a);
	*result = LOCK_CANCELLED;
	return !a->ops->is_ready || a->ops->is_ready(a->context) || stand_aside(a);
}

/* News that came during a request has cut it off, whatever came of that, and is read before the
 * next. False: the news are the end. */
static bool may_ask(const struct asking *a)
{
	struct pollfd cancel = {.fd = a->cancel_fd, .events = POLLIN};

	return !a->asked || poll(&cancel, 1, 0) <= 0 || a->ops->news(a->context) != ASKING_ENDS;
}

enum lock_result asking_run(struct asking *a, struct lock_answer *answer, struct failure *failure)
{
	enum lock_result result;

	a->began = a->started;
	a->trouble = no_answer;
	do {
		if (!may_ask(a))
			return LOCK_CANCELLED;
		ask(a, answer);
		if (answer->result == LOCK_GRANTED && use(a, answer))
			return LOCK_GRANTED;
		record_denial(a, answer);
		if (is_around(a, answer))
			return LOCK_AROUND;
		result = answer->result;
		*failure = answer->failure;
		if (!may_go_on(a, &result, answer, failure))
			return result;
	} while (wait_for_turn(a, answer, &result, failure));
	return result;
}
