#include "process/surroundings.h"

#include <poll.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <time.h>

#include "base/failure.h"
#include "process/caller_state.h"
#include "process/process.h"

/* Free descriptors: the front opens six to watch with; the keeper, which has most of these too,
 * four more, and three for the renewal; two are for a process deep in the tree, or to look up a
 * server, one for a message. */
#define ROOM 16
#define LOOK 64 /* so many numbers are looked at in one call */

static const struct timespec at_once;

/* Whether enough are free: poll(2) says of each that is not open that it is not. */
static bool has_room(rlim_t limit)
{
	struct pollfd fds[LOOK];
	size_t count, unused = 0;

	for (rlim_t from = 0; from < limit && unused < ROOM; from += count) {
		count = limit - from < LOOK ? (size_t)(limit - from) : LOOK;
		for (size_t i = 0; i < count; i++)
			fds[i] = (struct pollfd){.fd = (int)(from + i)};
		if (ppoll(fds, count, &at_once, NULL) < 0)
			return false;
		for (size_t i = 0; i < count; i++)
			unused += (fds[i].revents & POLLNVAL) != 0;
	}
	return unused >= ROOM;
}

static bool make_room(struct caller_state *caller_state)
{
	struct rlimit *files = &caller_state->files, more;

	if (getrlimit(RLIMIT_NOFILE, files) != 0)
		return false;
	if (has_room(files->rlim_cur))
		return true;
	more = *files;
	more.rlim_cur = MIN(files->rlim_cur + LOOK, files->rlim_max);
	caller_state->more_files = setrlimit(RLIMIT_NOFILE, &more) == 0;
	return caller_state->more_files && has_room(more.rlim_cur);
}

bool surroundings_suffice(struct caller_state *caller_state, struct failure *failure)
{
	if (!process_sees_itself())
		return failure_set(failure, EXIT_SYSTEM,
			"/proc does not show the processes of this PID namespace, so they could "
			"not be stopped: mount one (mount -t proc proc /proc)");
	if (!make_room(caller_state))
		return failure_set(failure, EXIT_SYSTEM,
			"fewer than %d descriptors are free, so COMMAND could not be watched over: "
			"raise the limit (ulimit -n)",
			ROOM);
	return true;
}
