#include "hold/caller_tree.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "hold/caller.h"
#include "process/cgroup_kill.h"
#include "process/process.h"
#include "process/process_tree.h"

#define MEMBERS_MOST  8192
#define ROUNDS_POLITE 3  /* of a signal that may be ignored */
#define ROUNDS_MOST   20 /* of stopping all; 1 ms apart */

struct member {
	pid_t pid;
	uint64_t start;
	bool gone;
	bool stopped; /* we have sent SIGSTOP */
};

/* There is one such tree in a process; untouched it takes no memory. */
static struct member members[MEMBERS_MOST];
static pid_t children[MEMBERS_MOST];

/* Its pidfd, while it lives; else -1: with ESRCH it has ended, with all else that is not known. The
 * pidfd first: what is read then is of the same process. */
static int open_member(const struct member *member)
{
	int fd = pidfd_open(member->pid, 0);
	struct pollfd end = {.fd = fd, .events = POLLIN};
	struct process process;

	if (fd < 0)
		return -1;
	if (poll(&end, 1, 0) <= 0 &&
		(!process_read(member->pid, &process) || process.start == member->start))
		return fd;
	close(fd);
	errno = ESRCH;
	return -1;
}

static bool is_known(const struct caller_tree *tree, pid_t pid, uint64_t start)
{
	for (size_t i = 0; i < tree->count; i++)
		if (members[i].pid == pid && members[i].start == start)
			return true;
	return false;
}

static void note(struct caller_tree *tree, pid_t pid, uint64_t start)
{
	if (tree->count < MEMBERS_MOST && !is_known(tree, pid, start))
		members[tree->count++] = (struct member){.pid = pid, .start = start};
}

/* We may be among them: where the caller is the first process of a container, all orphans are its
 * children. */
static void record_children(struct caller_tree *tree, pid_t parent)
{
	size_t count = tree_children(parent, children, MEMBERS_MOST);
	struct process process;

	for (size_t i = 0; i < count; i++)
		if (children[i] != getpid() && process_read(children[i], &process) &&
			process.parent == parent)
			note(tree, children[i], process.start);
}

/* Notes who has ended and who has come since. True: somebody has come. */
static bool gather(struct caller_tree *tree)
{
	size_t before = tree->count;

	if (tree->count == 0)
		note(tree, tree->root->pid, tree->root->start);
	for (size_t i = 0; i < tree->count; i++) {
		int fd = members[i].gone ? -1 : open_member(&members[i]);

		if (fd >= 0) {
			record_children(tree, members[i].pid);
			close(fd);
		} else if (!members[i].gone && errno == ESRCH) {
			members[i].gone = true;
			tree->gone++;
		}
	}
	return tree->count > before;
}

static void record_process(void *context, pid_t pid)
{
	struct caller_tree *tree = context;
	struct process process;

	if (pid != getpid() && process_has_variable(pid, "DLOCK_TOKEN", tree->token) &&
		process_read(pid, &process) && process.state != 'Z')
		note(tree, pid, process.start);
}

/* A process that was forked, and lost its parent, between the last look and the root's end is
 * nobody's child that was noted; but its environment names the lock. True: somebody has come. */
static bool gather_lost(struct caller_tree *tree)
{
	size_t before = tree->count;

	if (tree->token && caller_is_gone(tree->root))
		process_each(record_process, tree);
	return tree->count > before;
}

static void send(const struct member *member, int sig)
{
	int fd = member->gone ? -1 : open_member(member);

	if (fd < 0 && !member->gone && errno != ESRCH)
		kill(member->pid, sig); /* no descriptor is free: it lived when we last looked */
	if (fd < 0)
		return;
	if (pidfd_send_signal(fd, sig, NULL, 0) < 0 && errno == EPERM && sig == SIGKILL)
		cgroup_kill(member->pid, fd);
	close(fd);
}

/* Sends SIGSTOP to whoever runs and has not got it yet. Whether all stand still. */
static bool halt(const struct caller_tree *tree)
{
	struct process process;
	bool all = true;

	for (size_t i = 0; i < tree->count; i++) {
		struct member *member = &members[i];

		if (member->gone || !process_read(member->pid, &process) || process.state == 'T' ||
			process.state == 't' || process.state == 'Z')
			continue;
		all = false;
		if (!member->stopped)
			send(member, SIGSTOP);
		member->stopped = true;
	}
	return all;
}

/* Until nobody runs and nobody is new: who stands still forks nobody. */
static void freeze(struct caller_tree *tree)
{
	for (int round = 0; round < ROUNDS_MOST; round++) {
		bool halted = !gather(tree);

		if (halt(tree) && halted)
			return;
		poll(NULL, 0, round > 0);
	}
}

void caller_tree_signal(struct caller_tree *tree, int sig)
{
	gather_lost(tree);
	if (sig == SIGKILL) {
		freeze(tree);
		for (size_t i = tree->count; i-- > 0;)
			send(&members[i], sig);
		return;
	}
	/* Whoever has come meanwhile as well; but who forks faster than that must not put off the
	 * SIGKILL that follows. */
	gather(tree);
	for (size_t next = 0, round = 0; next < tree->count && round < ROUNDS_POLITE;
		round++, gather(tree))
		for (; next < tree->count; next++)
			send(&members[next], sig);
}

void caller_tree_look(struct caller_tree *tree, bool *over, unsigned *ended, bool *empty)
{
	*over = caller_is_gone(tree->root);
	if (tree->count == 0 && !tree->token) {
		*empty = *over;
		return;
	}
	gather(tree);
	*ended = (unsigned)tree->gone;
	*empty = tree->gone == tree->count && !gather_lost(tree);
}

size_t caller_tree_list(const struct caller_tree *tree, pid_t *pids, size_t most)
{
	size_t count = 0;

	for (size_t i = 0; i < tree->count && count < most; i++)
		if (!members[i].gone)
			pids[count++] = members[i].pid;
	return count;
}
