#include "process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup.h"
#include "other_tree.h"
#include "process.h"

#define DESCENDANTS_MOST 32768 /* in one sweep; what lies beyond is met by the next */

struct descendant {
	pid_t pid, parent;
};

/* Every sweep uses it; untouched it takes no memory. */
static struct descendant found[DESCENDANTS_MOST];

static bool is_stranger(const struct process_tree *tree, pid_t pid)
{
	for (size_t i = 0; tree && i < tree->stranger_count; i++)
		if (tree->strangers[i] == pid)
			return true;
	return false;
}

/* Appends the children that one thread has forked or adopted. The file is read in pieces: a pid
 * that a piece cuts in two is put together from both. */
static size_t add_children_of_thread(
	const struct process_tree *tree, pid_t parent, const char *thread, size_t count)
{
	char path[80], text[4096];
	pid_t pid = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/children", (int)parent, thread);

	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return count;
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
	close(fd);
	return count;
}

/* Appends the children of a process. Each thread has its own list (proc(5), since Linux 3.5).
 * getdents64 rather than readdir, which allocates. */
static size_t add_children(const struct process_tree *tree, pid_t parent, size_t count)
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
				count = add_children_of_thread(tree, parent, entry->d_name, count);
		}
	}
	close(fd);
	return count;
}

/* All descendants of a process, breadth first: parents before children. */
static size_t find_descendants(const struct process_tree *tree, pid_t root)
{
	size_t count = add_children(tree, root, 0);

	for (size_t i = 0; i < count; i++)
		count = add_children(NULL, found[i].pid, count);
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

static void signal_descendants(const struct process_tree *tree, pid_t root, int sig)
{
	size_t count = find_descendants(tree, root);

	for (size_t i = 0; i < count; i++)
		if (found[i].parent == getpid())
			insist(kill(found[i].pid, sig), found[i].pid, -1, sig);
		else
			signal_grandchild(&found[i], root, sig);
}

void tree_open(struct process_tree *tree)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (waitid(P_ALL, 0, NULL, WEXITED | WNOHANG | WNOWAIT) < 0)
		return; /* ECHILD: no children, the ordinary case */

	size_t count = add_children(NULL, getpid(), 0);

	for (size_t i = 0; i < count && i < TREE_STRANGERS; i++)
		tree->strangers[tree->stranger_count++] = found[i].pid;
}

void tree_reap(struct process_tree *tree)
{
	int status;
	pid_t pid;

	if (tree->other) {
		other_tree_look(tree->other, &tree->over, &tree->reaped, &tree->empty);
		return;
	}
	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
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
	tree->empty = pid < 0;
	if (!tree->empty && tree->stranger_count > 0)
		tree->empty = add_children(tree, getpid(), 0) == 0;
}

void tree_signal(const struct process_tree *tree, int sig)
{
	if (tree->other) {
		other_tree_signal(tree->other, sig);
		return;
	}
	signal_descendants(tree, getpid(), sig);
}

void tree_signal_below(pid_t root, int sig)
{
	signal_descendants(NULL, root, sig);
}

size_t tree_children(pid_t parent, pid_t *pids, size_t most)
{
	size_t count = add_children(NULL, parent, 0);

	for (size_t i = 0; i < count && i < most; i++)
		pids[i] = found[i].pid;
	return count < most ? count : most;
}

size_t tree_list(const struct process_tree *tree, pid_t *pids, size_t most)
{
	size_t count;

	if (tree->other)
		return other_tree_list(tree->other, pids, most);
	count = find_descendants(tree, getpid());
	if (count > most)
		count = most;
	for (size_t i = 0; i < count; i++)
		pids[i] = found[i].pid;
	return count;
}
