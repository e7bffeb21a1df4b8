/*
 * dlock guard STATEFILE COMMAND: the resource's side of a fencing token.
 *
 * dlock stays as COMMAND's parent and gives the flock back when COMMAND has ended: an exec in
 * its place would leave the flock to a descriptor that ssh(1), sudo(8) or `exec 3>file` closes in
 * mid-work, and that a daemon left behind keeps open for ever. But COMMAND inherits the descriptor
 * besides: should dlock be killed, COMMAND dies with it (program.h), yet what COMMAND has started
 * lives on, and must not meet the next one at the resource. So the flock stays with these until
 * the last of them has ended.
 */
#include "commands/commands.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/failure.h"
#include "base/message.h"
#include "cli/options.h"
#include "commands/fence_file.h"
#include "process/caller_state.h"
#include "process/exit_status.h"
#include "process/foreground_job.h"
#include "process/program.h"

/* Nothing has happened yet: while we wait for the flock, a signal does to us what it always does.
 */
static bool wait_for_turn(struct fence_file *file, const struct options *options,
	const struct caller_state *caller_state, struct failure *failure)
{
	sigset_t as_data;
	bool opened;

	sigprocmask(SIG_SETMASK, &caller_state->mask, &as_data);
	opened = fence_file_open(file, options->state_file, failure);
	sigprocmask(SIG_SETMASK, &as_data, NULL);
	return opened;
}

/* COMMAND may go on to another resource, or wish to leave the token with its work. */
static void hand_down(const struct fence_file *file)
{
	char token[24];

	snprintf(token, sizeof(token), "%" PRId64, file->token);
	setenv("DLOCK_FENCE", token, 1);
	fcntl(file->fd, F_SETFD, 0);
}

int cmd_guard(const struct options *options)
{
	struct caller_state caller_state;
	struct program program;
	struct fence_file file;
	struct foreground_job_end end;
	struct failure failure;
	bool ran;

	caller_state_take(&caller_state);
	if (!program_find(&program, options->argv, &failure))
		return message_failure(&failure);
	if (!wait_for_turn(&file, options, &caller_state, &failure))
		return message_failure(&failure);
	if (!fence_file_record(&file, options->fence, &failure)) {
		fence_file_close(&file);
		return message_failure(&failure);
	}

	hand_down(&file);
	ran = foreground_job_run(&program, &caller_state, &end, &failure);
	fence_file_close(&file);
	if (!ran)
		return message_failure(&failure);
	if (end.end_signal != 0)
		exit_status_by_signal(end.end_signal);
	return exit_status_code(end.status);
}
