#include "supervise/lingering.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "lock/lock.h"
#include "process/caller_state.h"
#include "process/foreign_tree.h"
#include "process/process.h"
#include "supervise/keeper_task.h"
#include "supervise/keeper_watch.h"
#include "supervise/takeover.h"

static struct foreign_tree below;

/* What cannot be read is not known, and no more than that. */
static void record_all(const struct keeper_watch *watch, const struct keeper_task *order)
{
	struct process process = {0};

	process_read(watch->keeper, &process);
	below = (struct foreign_tree){.root = watch->keeper,
		.start = process.start,
		.fd = fcntl(watch->keeper_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1),
		.token = lock_token(order->lock)};
	foreign_tree_record(&below);
}

/* To the keeper's end. The lock's end is seen to from here only if the keeper cannot do it. */
static _Noreturn void stay(struct keeper_watch *watch, const struct keeper_task *order)
{
	int unheard;

	setsid();
	caller_state_close();
	(void)!chdir("/"); /* or the file system of the caller's could not be unmounted */
	watch->guardian = GUARDIAN_NONE;
	foreign_tree_attach(&below, &watch->tree);
	watch->tree.empty = false;
	if (keeper_watch_run(watch, order, &unheard) == KEEPER_WATCH_DIED)
		takeover(watch, order);
	_exit(0);
}

bool lingering_leave_behind(struct keeper_watch *watch, const struct keeper_task *order)
{
	pid_t pid;

	record_all(watch, order);
	if (foreign_tree_is_over(&below))
		return false;
	pid = fork();
	if (pid == 0)
		stay(watch, order);
	if (pid < 0)
		message_say(MESSAGE_WARNING,
			"no second process for what COMMAND left running (%s): if its keeper is "
			"killed, it runs on",
			strerror(errno));
	return true;
}
