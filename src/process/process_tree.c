#include "process/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hold/caller_tree.h"
#include "process/cgroup_kill.h"
#include "process/process.h"

#define DESCENDANTS_MOST 32768 /* in one sweep; what lies beyond is met by the next */

#define STRANGERS_MOST 256

struct descendant {
	pid_t pid, parent;
};

/* A process for good: a pid alone may be another's later. */
struct stranger {
	pid_t pid;
	uint64_t start; /* as struct process has it */
};

/* Of the one tree that has any; untouched it takes no memory. */
static struct stranger strangers[STRANGERS_MOST];

/* Of this process: the list of its children, read anew from its beginning; -1: none yet. */
static int own_list = -1;

/* Every sweep uses it, in the one thread that watches a tree; untouched it takes no memory. */
static struct descendant found[DESCENDANTS_MOST];

/* A process that started at this moment or before is surely older than the one clock tick that its
 * start is known by. */
static bool started_before(const struct process *process, nanos moment)
{
	nanos tick = NANOS_PER_SEC / sysconf(_SC_CLK_TCK);

	return ((nanos)process->start + 1) * tick <= moment;
}

/* Only where there were children before COMMAND: of these, and of what they leave to us. */
static bool is_stranger(const struct process_tree *tree, pid_t pid)
{
	struct process process;

	if (!tree || tree->stranger_count == 0 || !process_read(pid, &process))
		return false;
	if (started_before(&process, tree->begun))
		return true;
	for (size_t i = 0; i < tree->stranger_count; i++)
		if (strangers[i].pid == pid && strangers[i].start == process.start)
			return true;
	return false;
}

/* Appends the pids of a list, /proc/PID/task/TID/children, from where it is read. It is read in
 * pieces: a pid that a piece cuts in two is put together from both. */
static size_t add_list(const struct process_tree *tree, pid_t parent, int fd, size_t count)
{
	char text[4096];
	pid_t pid = 0;
	ssize_t n;

	while ((n = read(fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (isdigit((unsigned char)text[i])) {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 0 && count < DESCENDANTS_MOST && !is_stranger(tree, pid))
				found[count++] = (struct descendant){pid, parent};
			pid = 0;
		}
	}
	return count;
}

/* Our own children. All are the first thread's: it forks COMMAND, and the kernel gives orphans to
 * the first thread that lives (find_alive_thread() in kernel/exit.c). */
static size_t add_own_children(const struct process_tree *tree)
{
	if (!tree_prepare())
		return 0;
	lseek(own_list, 0, SEEK_SET);
	return add_list(tree, getpid(), own_list, 0);
}

/* A list that cannot be read is no proof that there are none. */
static bool has_own_children(const struct process_tree *tree)
{
	errno = 0;
	return add_own_children(tree) > 0 || errno != 0;
}

/* Appends the children that one thread has forked or adopted. */
static size_t add_children_of_thread(pid_t parent, const char *thread, size_t count)
{
	char path[80];

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)parent, thread);

	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return count;
	count = add_list(NULL, parent, fd, count);
	close(fd);
	return count;
}

/* Appends the children of a process. Each thread has its own list (proc(5), since Linux 3.5).
 * getdents64 rather than readdir, which allocates. */
static size_t add_children(pid_t parent, size_t count)
{
	char path[48];
	_Alignas(struct dirent64) char entries[2048];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)parent);

	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return count;
	while ((n = getdents64(fd, entries, sizeof(entries))) > 0) {
		const struct dirent64 *entry;

		for (ssize_t at = 0; at < n; at += entry->d_reclen) {
			entry = (const void *)(entries + at);
			if (isdigit((unsigned char)entry->d_name[0]))
				count = add_children_of_thread(parent, entry->d_name, count);
		}
	}
	close(fd);
	return count;
}

/* Below the first `count`, breadth first: parents before children. */
static size_t add_descendants(size_t count)
{
	for (size_t i = 0; i < count; i++)
		count = add_children(found[i].pid, count);
	return count;
}

/* What may not be signalled may still be killed by its cgroup. */
static void insist(int result, pid_t pid, int pidfd, int sig)
{
	if (result < 0 && errno == EPERM && sig == SIGKILL)
		cgroup_kill(pid, pidfd);
}

/* Somebody else's child: between our look at the list and this call it may have ended and its pid
 * may have been given to a stranger; but a pidfd stays with one process. If its parent has died
 * meanwhile, of this very signal perhaps, it is the root's child now. */
static void signal_grandchild(const struct descendant *descendant, pid_t root, int sig)
{
	int fd = pidfd_open(descendant->pid, 0);

	if (fd < 0)
		return;

	struct process process;

	if (process_read(descendant->pid, &process) &&
		(process.parent == descendant->parent || process.parent == root))
		insist(pidfd_send_signal(fd, sig, NULL, 0), descendant->pid, fd, sig);
	close(fd);
}

static void signal_found(size_t count, pid_t root, pid_t but, int sig)
{
	for (size_t i = 0; i < count; i++)
		if (found[i].pid == but)
			continue;
		else if (found[i].parent == getpid())
			insist(kill(found[i].pid, sig), found[i].pid, -1, sig);
		else
			signal_grandchild(&found[i], root, sig);
}

void tree_record_strangers(struct process_tree *tree, pid_t but)
{
	size_t own = 0, count;
	struct process process;

	tree->stranger_count = 0; /* or they would be left out here */
	count = add_own_children(tree);
	for (size_t i = 0; i < count; i++)
		if (found[i].pid != but)
			found[own++] = found[i];
	count = add_descendants(own);
	for (size_t i = 0; i < count && tree->stranger_count < STRANGERS_MOST; i++)
		if (process_read(found[i].pid, &process))
			strangers[tree->stranger_count++] =
				(struct stranger){found[i].pid, process.start};
}

bool tree_prepare(void)
{
	if (own_list < 0)
		own_list = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
	return own_list >= 0;
}

void tree_close(void)
{
	if (own_list >= 0)
		close(own_list);
	own_list = -1;
}

bool tree_open(struct process_tree *tree)
{
	tree_close(); /* the list of the process that forked us */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return false;
	/* ECHILD: no children, the ordinary case. */
	if (waitid(P_ALL, 0, NULL, WEXITED | WNOHANG | WNOWAIT) == 0)
		tree_record_strangers(tree, 0);
	return true;
}

/* Once more where it fails otherwise than by ECHILD: no SIGCHLD may come to have us look again. */
static pid_t wait_for_any(int *status)
{
	pid_t pid = waitpid(-1, status, WNOHANG | WUNTRACED | WCONTINUED);

	if (pid < 0 && errno != ECHILD)
		pid = waitpid(-1, status, WNOHANG | WUNTRACED | WCONTINUED);
	return pid;
}

void tree_reap(struct process_tree *tree)
{
	int status;
	pid_t pid;

	if (tree->other) {
		caller_tree_look(tree->other, &tree->over, &tree->reaped, &tree->empty);
		return;
	}
	while ((pid = wait_for_any(&status)) > 0) {
		if (WIFEXITED(status) || WIFSIGNALED(status))
			tree->reaped++;
		if (pid != tree->command)
			continue;
		tree->stopped = WIFSTOPPED(status);
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			tree->status = status;
			tree->over = true;
		}
	}
	tree->empty = pid < 0 && errno == ECHILD;
	if (!tree->empty && tree->stranger_count > 0)
		tree->empty = !has_own_children(tree);
}

void tree_signal(const struct process_tree *tree, int sig)
{
	if (tree->other) {
		caller_tree_signal(tree->other, sig);
		return;
	}
	if (tree->command > 0 && !tree->over)
		insist(kill(tree->command, sig), tree->command, -1, sig);
	signal_found(add_descendants(add_own_children(tree)), getpid(), tree->command, sig);
}

void tree_signal_below(pid_t root, int sig)
{
	signal_found(add_descendants(add_children(root, 0)), root, 0, sig);
}

size_t tree_children(pid_t parent, pid_t *pids, size_t most)
{
	size_t count = add_children(parent, 0);

	for (size_t i = 0; i < count && i < most; i++)
		pids[i] = found[i].pid;
	return count < most ? count : most;
}

size_t tree_list(const struct process_tree *tree, pid_t *pids, size_t most)
{
	size_t count;

	if (tree->other)
		return caller_tree_list(tree->other, pids, most);
	count = add_descendants(add_own_children(tree));
	if (count > most)
		count = most;
	for (size_t i = 0; i < count; i++)
		pids[i] = found[i].pid;
	return count;
}
