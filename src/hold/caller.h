/*
 * The process for which `dlock hold` holds a lock. It is no child of ours and does not descend from
 * us, so it is watched by pidfd, and may end or be killed at any moment.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct failure;

struct caller {
	pid_t pid;
	uint64_t start;       /* as struct process has it */
	int fd;               /* its pidfd; lives as long as this process */
	atomic_int stderr_fd; /* its standard error, kept open while it is stopped; else -1; or
			       * STDERR_LENT (caller.c) */
};

/*
 * Finds the shell that called us. The caller is our parent; but if our parent is a subshell that
 * ends with its substitution, $(...) or <(...), it is the shell that reads what the subshell
 * prints. A process of another session is no caller, nor is a subreaper: our parent has ended, and
 * the process that adopted us does not know of us. Another dlock is none either. False with
 * EXIT_USAGE, or EXIT_SYSTEM.
 */
bool caller_find(struct caller *caller, struct failure *failure);

/* The process that --pid names. False as above. */
bool caller_open(struct caller *caller, pid_t pid, struct failure *failure);

/* Between these two it can be told something even though it ends meanwhile. */
void caller_keep_stderr(struct caller *caller);
void caller_drop_stderr(struct caller *caller);

/* For message_divert, of a struct caller: writes to what is its standard error at this moment,
 * without keeping that open. False: it is gone, has none, or nobody reads it. Any thread. */
bool caller_report(const char *line, size_t length, void *context);
