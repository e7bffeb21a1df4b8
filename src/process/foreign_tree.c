#include "process/foreign_tree.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/newer_libc.h"
#include "process/cgroup_kill.h"
#include "process/process.h"
#include "process/process_tree.h"

#define MEMBERS_MOST  8192
#define ROUNDS_POLITE 3  /* of a signal that may be ignored */
#define ROUNDS_MOST   20 /* of stopping all; 1 ms apart */

struct member {
	pid_t pid;
	uint64_t start;
	bool gone;    /* the process has ended, and its place is about to be used again */
	bool asked;   /* we have sent the signal that is just being sent */
	bool stopped; /* we have sent SIGSTOP */
};

/* There is one such tree in a process; untouched it takes no memory. */
static struct member members[MEMBERS_MOST];

/* Its pidfd, while it lives; else -1: with ESRCH it has ended, with all else that is not known. The
 * pidfd first: what is read then is of the same process. */
static int open_member(const struct member *member)
{
	int fd = pidfd_open(member->pid, 0);
	struct process process;

	if (fd < 0)
		return -1;
	if (!process_has_ended(fd) &&
		(!process_read(member->pid, &process) || process.start == member->start))
		return fd;
	close(fd);
	errno = ESRCH;
	return -1;
}

static bool is_known(const struct foreign_tree *tree, pid_t pid, uint64_t start)
{
	for (size_t i = 0; i < tree->count; i++)
		if (members[i].pid == pid && members[i].start == start)
			return true;
	return false;
}

static void record(struct foreign_tree *tree, pid_t pid, uint64_t start)
{
	if (is_known(tree, pid, start))
		return;
	if (tree->count == MEMBERS_MOST) {
		tree->missed = true;
		return;
	}
	members[tree->count++] = (struct member){.pid = pid, .start = start};
	tree->come++;
}

struct family {
	struct foreign_tree *tree;
	pid_t parent;
};

/* This process may be among them: if the root is the first process of a container, all orphans are
 * its children. */
static void record_child(void *context, pid_t pid)
{
	const struct family *family = context;
	struct process process;

	if (pid != getpid() && process_read(pid, &process) && process.parent == family->parent)
		record(family->tree, pid, process.start);
}

/* Processes that have ended leave their places to others; the order stays, parents before
 * children. */
static void forget_gone(struct foreign_tree *tree)
{
	size_t kept = 0;

	for (size_t i = 0; i < tree->count; i++)
		if (!members[i].gone)
			members[kept++] = members[i];
	tree->count = kept;
}

/* Looks once at each member: has it ended, and which are its children. */
static void look_at_all(struct foreign_tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		int fd = members[i].gone ? -1 : open_member(&members[i]);

		if (fd >= 0) {
			process_each_child(members[i].pid, record_child,
				&(struct family){tree, members[i].pid});
			close(fd);
		} else if (!members[i].gone && errno == ESRCH) {
			members[i].gone = true;
			tree->gone++;
		}
	}
}

static bool is_hidden(const struct foreign_tree *tree)
{
	struct process process;

	return !process_read(tree->root, &process) && !process_has_ended(tree->fd);
}

/* Records which members have ended and which have come since. True: one has come. While the root
 * lives, each look may find what the one before has missed; after that it may be nobody's child. */
static bool gather(struct foreign_tree *tree)
{
	unsigned gone = tree->gone, come = tree->come;
	bool missed = tree->missed;

	if (!tree->begun)
		record(tree, tree->root, tree->start);
	tree->begun = true;
	tree->missed = false;
	look_at_all(tree);
	forget_gone(tree);
	if (tree->missed && tree->gone > gone) { /* there is room now */
		tree->missed = false;
		look_at_all(tree);
	}
	tree->missed |= (missed && process_has_ended(tree->fd)) || is_hidden(tree);
	return tree->come > come;
}

static void record_process(void *context, pid_t pid)
{
	struct foreign_tree *tree = context;
	char *token = pid == getpid() ? NULL : process_variable(pid, "DLOCK_TOKEN");
	struct process process;

	if (token && strcmp(token, tree->token) == 0 && process_read(pid, &process) &&
		process.state != 'Z')
		record(tree, pid, process.start);
	free(token);
}

/* A process that was forked, and lost its parent, between the last look and the root's end is no
 * child of a recorded member; but its environment names the lock. True: one has come. */
static bool gather_lost(struct foreign_tree *tree)
{
	unsigned come = tree->come;

	if (tree->token && process_has_ended(tree->fd))
		process_each(record_process, tree);
	return tree->come > come;
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

/* Sends SIGSTOP to each member that runs and has not got it yet. Whether all stand still. */
static bool halt(const struct foreign_tree *tree)
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

/* Until none runs and none is new: a process that stands still forks none. */
static void freeze(struct foreign_tree *tree)
{
	for (int round = 0; round < ROUNDS_MOST; round++) {
		bool halted = !gather(tree);

		if (halt(tree) && halted)
			return;
		poll(NULL, 0, round > 0);
	}
}

static void ask_all(const struct foreign_tree *tree, int sig)
{
	for (size_t i = 0; i < tree->count; i++) {
		struct member *member = &members[i];

		if (!member->asked)
			send(member, sig);
		member->asked = true;
	}
}

static void signal_foreign(const struct process_tree *tree, int sig)
{
	struct foreign_tree *foreign = tree->foreign;

	gather_lost(foreign);
	if (sig == SIGKILL) {
		freeze(foreign);
		for (size_t i = foreign->count; i-- > 0;)
			send(&members[i], sig);
		return;
	}
	/* Processes that have come meanwhile as well; but a tree that forks faster than that must
	 * not put off the SIGKILL that follows. */
	for (size_t i = 0; i < foreign->count; i++)
		members[i].asked = false;
	for (int round = 0; round < ROUNDS_POLITE && (gather(foreign) || round == 0); round++)
		ask_all(foreign, sig);
}

static void look_at_foreign(struct process_tree *tree)
{
	struct foreign_tree *foreign = tree->foreign;

	tree->over = process_has_ended(foreign->fd);
	if (!foreign->begun && !foreign->token) {
		tree->empty = tree->over;
		return;
	}
	gather(foreign);
	tree->reaped = foreign->gone;
	tree->empty = foreign->count == 0 && !foreign->missed && !gather_lost(foreign);
}

static size_t list_foreign(const struct process_tree *tree, pid_t *pids, size_t most)
{
	const struct foreign_tree *foreign = tree->foreign;
	size_t count = 0;

	for (size_t i = 0; i < foreign->count && count < most; i++)
		if (!members[i].gone)
			pids[count++] = members[i].pid;
	return count;
}

void foreign_tree_attach(struct foreign_tree *foreign, struct process_tree *tree)
{
	static const struct tree_ops ops = {
		.reap = look_at_foreign, .signal = signal_foreign, .list = list_foreign};

	tree->ops = &ops;
	tree->foreign = foreign;
}

void foreign_tree_record(struct foreign_tree *foreign)
{
	gather(foreign);
	gather_lost(foreign);
}
