#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/process_tree.h"
#include "supervise/survivors.h"
#include "supervise/ward.h"
#include "tap.h"

/* A child that is called so and lives until it is killed. */
static pid_t child(const char *name)
{
	int named[2];
	char byte;
	pid_t pid;

	if (pipe(named) != 0 || (pid = fork()) < 0)
		_exit(1);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		close(named[0]);
		close(named[1]);
		pause();
		_exit(0);
	}
	close(named[1]);
	(void)!read(named[0], &byte, 1);
	close(named[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

int main(void)
{
	struct process_tree tree = {0};
	pid_t holder, handover, other;
	nanos holders, handovers;

	tree_open(&tree);
	ok(survivors_leave_within(&tree) > 0,
		"an empty list may lack a process that is just being forked: it is waited for");
	holder = child(HOLDER_PROGRAM);
	holders = survivors_leave_within(&tree);
	ok(holders > 0, "keepers of hold end soon");
	handover = child(HANDOFF_PROGRAM);
	handovers = survivors_leave_within(&tree);
	ok(handovers > holders, "both: as long as the slower");
	end(holder);
	ok(survivors_leave_within(&tree) == handovers, "what sees to a handover");
	other = child("other");
	ok(survivors_leave_within(&tree) == 0, "something else among it");
	end(handover);
	end(other);
	ok(survivors_leave_within(&tree) == handovers, "nobody is left");
	return tap_end();
}
