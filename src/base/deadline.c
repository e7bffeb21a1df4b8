#include "base/deadline.h"

#include <poll.h>

#define LATE (50 * NANOS_PER_MS) /* a process that runs notices sooner that time is up */

bool deadline_is_over(struct deadline *deadline)
{
	nanos now;

	if (deadline->until == NANOS_NEVER)
		return false;
	now = clock_now();
	if (now < deadline->until)
		return false;
	if (deadline->least == 0 || now - deadline->until < LATE)
		return true;
	deadline->until = now + deadline->least;
	deadline->least = 0;
	return false;
}

enum deadline_end deadline_wait_any(struct deadline *deadline, struct pollfd *fds, unsigned count)
{
	fds[0] = (struct pollfd){.fd = deadline->cancel_fd, .events = POLLIN};
	for (;;) {
		/* poll(2) passes over a negative descriptor. EINTR is passed over here: a caller
		 * that wants to end the wait by a signal makes it a readable descriptor. */
		bool over = deadline_is_over(deadline);
		int ready = poll(fds, count, over ? 0 : clock_poll_ms(deadline->until));

		if (ready > 0)
			return ready == 1 && fds[0].revents != 0 ? DEADLINE_CANCELLED
								 : DEADLINE_READY;
		if (over)
			return DEADLINE_OVER;
	}
}

enum deadline_end deadline_wait(struct deadline *deadline, int fd, short events)
{
	struct pollfd fds[] = {{0}, {.fd = fd, .events = events}};

	return deadline_wait_any(deadline, fds, 2);
}

bool deadline_pause(struct deadline deadline, nanos span)
{
	deadline = deadline_within(deadline, span);
	deadline.least = 0;
	return deadline_wait(&deadline, -1, 0) != DEADLINE_CANCELLED;
}

struct deadline deadline_within(struct deadline deadline, nanos span)
{
	nanos end = clock_after(clock_now(), span);

	if (end < deadline.until)
		deadline.until = end;
	return deadline;
}

struct deadline deadline_alone(nanos until)
{
	return (struct deadline){.until = until, .cancel_fd = -1, .least = DEADLINE_LEAST};
}
