#include "supervise/command_ward.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/message.h"
#include "base/newer_libc.h"
#include "base/number.h"
#include "process/caller_state.h"
#include "process/foreign_tree.h"
#include "process/process.h"
#include "process/program.h"
#include "supervise/task.h"
#include "supervise/keeper_loop.h"
#include "supervise/keeper_watch.h"
#include "supervise/takeover.h"

/* ---- the front ---- */

static enum outcome_kind end_of_run(const struct keeper_watch *watch)
{
	static const enum outcome_kind stopped[] = {
		[STOP_NONE] = OUTCOME_RAN,
		[STOP_LOST] = OUTCOME_LOST,
		[STOP_UNPROVED] = OUTCOME_LOST,
		[STOP_FRONT_GONE] = OUTCOME_LOST,
		[STOP_MAX_RUN] = OUTCOME_MAX_RUN,
		[STOP_FIRST_ENDS] = OUTCOME_RAN,
	};
	enum outcome_kind kind = stopped[watch->lease->stop];

	if (atomic_load(&watch->lease->lost) || (watch->stood_still && watch->kills_keeper))
		return OUTCOME_LOST;
	return kind == OUTCOME_RAN && watch->overrun ? OUTCOME_MAX_RUN : kind;
}

/* COMMAND ran, or could not be started. */
static void conclude(const struct keeper_watch *watch, struct outcome *outcome)
{
	const struct lease *lease = watch->lease;

	if (lease->start_failure.code != EXIT_DONE) {
		outcome_fail(outcome, &lease->start_failure);
		return;
	}
	outcome->kind = end_of_run(watch);
	/* A shell's loop ends when what it runs dies of Ctrl-C, not when it exits with 130. */
	if (outcome->kind == OUTCOME_RAN && WIFSIGNALED(lease->command_status) &&
		WTERMSIG(lease->command_status) == watch->terminal_signal)
		outcome->end_signal = watch->terminal_signal;
}

/* ---- what COMMAND left running ----
 *
 * Without -o the lock stays with that, and the front returns all the same. Then the keeper would be
 * alone: if it were killed, what it watches over would run on after the lock's end. So the front
 * leaves a copy of itself behind, which watches over the keeper as the front did.
 *
 * The copy is no ancestor of the keeper, so orphans do not become its children. It records what is
 * below the keeper, once before the front returns and then every second. */

static struct foreign_tree below;

/* A process that cannot be read is not known, and no more than that. */
static void record_all(const struct keeper_watch *watch)
{
	struct process process = {0};

	process_read(watch->keeper, &process);
	below = (struct foreign_tree){.root = watch->keeper,
		.start = process.start,
		.fd = fcntl(watch->keeper_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1),
		.token = watch->task->lock ? lock_token(watch->task->lock) : NULL};
	foreign_tree_record(&below);
}

/* To the keeper's end. The lock's end is seen to from here only if the keeper cannot do it. */
static _Noreturn void stay(struct keeper_watch *watch)
{
	setsid();
	caller_state_close(watch->task->caller_state);
	(void)!chdir("/"); /* or the file system of the caller's could not be unmounted */
	watch->notify = NULL;
	foreign_tree_attach(&below, &watch->tree);
	watch->tree.empty = false;
	if (keeper_watch_run(watch) == KEEPER_WATCH_DIED)
		takeover(watch);
	_exit(0);
}

static bool leave_behind(struct keeper_watch *watch)
{
	pid_t pid;

	process_keep_proc();
	record_all(watch);
	if (process_has_ended(below.fd))
		return false;
	atomic_store(&watch->lease->told, true);
	pid = fork();
	if (pid == 0)
		stay(watch);
	if (pid < 0)
		message_say(MESSAGE_WARNING,
			"no second process for what COMMAND left running (%s): if its keeper is "
			"killed, it runs on",
			strerror(errno));
	return true;
}

/* ---- the keeper: environment and start ---- */

static void export_slot(const struct lock_answer *answer)
{
	char slot[NUMBER_SIZE];

	number_write(slot, answer->slot);
	if (answer->has_slot)
		setenv("DLOCK_SLOT", slot, 1);
	else
		unsetenv("DLOCK_SLOT");
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* If there are several locks: NAME=FENCE of each, in their order. */
static void export_fences(const struct keeper_loop *loop)
{
	const struct task *run = loop->task;
	size_t count = run->also_count + 1, size = 1, used = 0;
	const char **names = calloc(count, sizeof(*names));
	char *text;

	for (size_t i = 0; names && i < count; i++) {
		names[i] = i == 0 ? run->name : run->also[i - 1];
		size += strlen(names[i]) + 24;
	}
	text = names ? calloc(1, size) : NULL;
	if (text)
		qsort(names, count, sizeof(*names), compare_names);
	for (size_t i = 0; text && i < count; i++)
		if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
			used += (size_t)snprintf(text + used, size - used, "%s%s=%" PRIu64,
				i ? " " : "", names[i], guest_fence(loop->task, names[i]));
	setenv("DLOCK_FENCES", text ? text : "", 1);
	free(text);
	free(names);
}

/* A slot, and the fences of several locks, are those of the dlock around us if it has all. */
static void export_answer(const struct keeper_loop *loop)
{
	const struct task *run = loop->task;
	char fence[NUMBER_SIZE];

	number_write_unsigned(fence, guest_fence(loop->task, run->name));
	setenv("DLOCK_NAME", run->name, 1);
	setenv("DLOCK_TOKEN", guest_token(run), 1);
	setenv("DLOCK_FENCE", fence, 1);
	if (loop->lock)
		export_slot(&loop->lease->answer);
	if (run->also_count > 0)
		export_fences(loop);
	else if (loop->lock)
		unsetenv("DLOCK_FENCES");
}

/* If the terminal's shell is gone, or there never was one (`ssh -t HOST dlock ...`), nobody could
 * continue a job that Ctrl-Z has stopped. So the kernel lets none be stopped, and ends those that
 * are: a group of which no member's parent is in another group of the same session (orphaned
 * process group, POSIX.1-2017 3.264; will_become_orphaned_pgrp() in kernel/exit.c). COMMAND's
 * parent must not be taken for such a shell. Only a process that leads no group can leave the
 * session (setsid(2)). */
static void leave_session(pid_t group)
{
	if (setpgid(0, group) == 0 && setsid() < 0)
		setpgid(0, 0); /* COMMAND is in our group, if vfork is a fork (valgrind) */
}

static bool start(struct keeper_loop *loop)
{
	const struct caller_state *caller_state = loop->task->caller_state;
	pid_t group = caller_state->terminal ? getpgid(loop->front) : 0;

	export_answer(loop);
	caller_state_hide(caller_state);
	loop->tree.command = program_start(loop->task->ward.own, caller_state, loop->front,
		group < 0 ? 0 : group, &loop->lease->command, &loop->lease->start_failure);
	if (loop->tree.command < 0)
		return false;
	loop->ward_fd = pidfd_open(loop->tree.command, 0);
	if (group > 0)
		leave_session(group);
	return true;
}

/* ---- the keeper: watching over it ---- */

/* COMMAND has as well what the terminal sends. It reaches the keeper only while that leaves the
 * session, in COMMAND's group. fg sends SIGCONT to the whole job, so COMMAND has it already if it
 * was stopped and is no longer. */
static void forward(struct keeper_loop *loop, const struct signalfd_siginfo *info)
{
	int sig = (int)info->ssi_signo;

	if (caller_state_is_shared(loop->task->caller_state, sig, info->ssi_code))
		return;
	if (sig == SIGCONT && loop->tree.stopped) {
		keeper_loop_look(loop);
		if (!loop->tree.stopped)
			return;
	}
	if (loop->lingering)
		tree_signal(&loop->tree, sig);
	else if (!loop->tree.over)
		kill(loop->tree.command, sig);
}

static void front_gone(struct keeper_loop *loop)
{
	keeper_loop_stop(loop, STOP_FRONT_GONE, "dlock (pid %d) was killed; stopping COMMAND",
		(int)loop->front);
}

const struct ward_ops command_ward = {
	.name = "COMMAND",
	.leave_behind = leave_behind,
	.conclude = conclude,
	.start = start,
	.forward = forward,
	.front_gone = front_gone,
};
