#include "patience.h"

#include <poll.h>
#include <stdbool.h>

enum patience_end patience_wait(struct patience patience, int fd, short events)
{
	struct pollfd fds[2] = {
		{.fd = fd, .events = events},
		{.fd = patience.cancel_fd, .events = POLLIN},
	};

	for (;;) {
		/* A negative descriptor is passed over by poll(2); so is EINTR here: whoever wants
		 * to end the wait by a signal makes it a readable descriptor. */
		bool over = patience.until != NANOS_NEVER && clock_now() >= patience.until;
		int ready = poll(fds, 2, over ? 0 : clock_poll_ms(patience.until));
		if (ready > 0 && fds[0].revents != 0)
			return PATIENCE_READY;
		if (ready > 0)
			return PATIENCE_CANCELLED;
		if (over)
			return PATIENCE_OVER;
	}
}

struct patience patience_within(struct patience patience, nanos span)
{
	nanos end = clock_after(clock_now(), span);

	if (end < patience.until)
		patience.until = end;
	return patience;
}
