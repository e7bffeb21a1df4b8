#include "process/process_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/newer_libc.h"
#include "process/cgroup_kill.h"
#include "process/process.h"

#define DESCENDANTS_MOST 32768 /* in one sweep; what lies beyond is met by the next */

#define STRANGERS_MOST 256
#define SWEEPS_MOST    5 /* until a sweep finds no more */

struct descendant {
	pid_t pid, parent;
};

/* A process for good: a pid alone may be another's later. */
struct stranger {
	pid_t pid;
	uint64_t start; /* as struct process has it */
};

/* The strangers of the one tree that has any; untouched it takes no memory. */
static struct stranger strangers[STRANGERS_MOST];

/* The list of this process's children, read anew from its beginning; -1: not open yet. */
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

/* Whether a process is one of the children that were there before COMMAND, or was left to us by
 * one. */
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

/* The findings of one sweep so far. */
struct sweep {
	const struct process_tree *tree; /* its strangers are left out; NULL: none are */
	pid_t parent;                    /* of those that are added now */
	size_t count;                    /* in `found` */
	bool again;                      /* some may be there already */
};

/* By now it may have another parent. */
static bool is_found(const struct sweep *sweep, pid_t pid)
{
	for (size_t i = 0; sweep->again && i < sweep->count; i++)
		if (found[i].pid == pid) {
			found[i].parent = sweep->parent;
			return true;
		}
	return false;
}

static void add(void *context, pid_t pid)
{
	struct sweep *sweep = context;

	if (sweep->count < DESCENDANTS_MOST && !is_stranger(sweep->tree, pid) &&
		!is_found(sweep, pid))
		found[sweep->count++] = (struct descendant){pid, sweep->parent};
}

/* Our own children. All are the first thread's: it forks COMMAND, and the kernel gives orphans to
 * the first thread that lives (find_alive_thread() in kernel/exit.c). */
static size_t add_own_children(const struct process_tree *tree, size_t count)
{
	struct sweep sweep = {.tree = tree, .parent = getpid(), .count = count, .again = count > 0};

	if (!tree_prepare())
		return count;
	lseek(own_list, 0, SEEK_SET);
	process_each_listed(own_list, add, &sweep);
	return sweep.count;
}

static bool is_one_zombie(pid_t pid)
{
	int status;

	return process_is_zombie(pid, &status);
}

/* Whether one of our own children lives. A zombie that waitpid(2) does not give us is a debugger's
 * to reap first (wait_consider_task() in kernel/exit.c). The children of a zombie became ours
 * before it was one; so if all are zombies and none has come meanwhile, none lives. A list that
 * cannot be read is no proof that there are none. */
static bool has_own_children(const struct process_tree *tree)
{
	size_t count;

	errno = 0;
	count = add_own_children(tree, 0);
	if (errno != 0)
		return true;
	for (size_t i = 0; i < count; i++)
		if (!is_one_zombie(found[i].pid))
			return true;
	return count > 0 && add_own_children(tree, 0) != count;
}

/* COMMAND may have ended, though its debugger still has it. */
static void look_at_command(struct process_tree *tree)
{
	if (tree->command > 0 && !tree->over && process_is_zombie(tree->command, &tree->status)) {
		tree->over = true;
		tree->stopped = false;
	}
}

/* Appends the children of a process. */
static size_t add_children(pid_t parent, size_t count, bool again)
{
	struct sweep sweep = {.parent = parent, .count = count, .again = again};

	process_each_child(parent, add, &sweep);
	return sweep.count;
}

/* Below those from `from` to `count`, breadth first: parents before children. */
static size_t add_descendants(size_t from, size_t count)
{
	for (size_t i = from; i < count; i++)
		count = add_children(found[i].pid, count, from > 0);
	return count;
}

/* All below the root. A sweep goes down the tree, and misses the child of a process that ends
 * meanwhile: it moves up to the root, and was in neither list when that was read. So the root's is
 * read again as long as there are more; but a tree of which each process forks another and ends has
 * more for ever. SIGKILL comes in rounds anyway. */
static size_t find_all(const struct process_tree *tree, pid_t root, int sig)
{
	int sweeps = sig == SIGKILL ? 1 : SWEEPS_MOST;
	size_t count = 0, before;

	do {
		before = count;
		count = root == getpid() ? add_own_children(tree, count)
					 : add_children(root, count, count > 0);
		count = add_descendants(before, count);
	} while (--sweeps > 0 && count > before);
	return count;
}

/* A process that may not be signalled may still be killed by its cgroup. */
static void insist(int result, pid_t pid, int pidfd, int sig)
{
	if (result < 0 && errno == EPERM && sig == SIGKILL)
		cgroup_kill(pid, pidfd);
}

/* Another process's child: between our look at the list and this call it may have ended, and its
 * pid may be another's now; but a pidfd stays with one process. If its parent has died since, by
 * this very signal perhaps, it is `root`'s child now. */
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
	count = add_own_children(tree, 0);
	for (size_t i = 0; i < count; i++)
		if (found[i].pid != but)
			found[own++] = found[i];
	count = add_descendants(0, own);
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

/* Once more if it fails otherwise than by ECHILD: no SIGCHLD may come to have us look again. */
static pid_t wait_for_any(int *status)
{
	pid_t pid = waitpid(-1, status, WNOHANG | WUNTRACED | WCONTINUED);

	if (pid < 0 && errno != ECHILD)
		pid = waitpid(-1, status, WNOHANG | WUNTRACED | WCONTINUED);
	return pid;
}

static void reap_own(struct process_tree *tree)
{
	int status;
	pid_t pid;

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
	if (tree->empty)
		return;
	look_at_command(tree);
	if (tree->over || tree->command == 0 || tree->stranger_count > 0)
		tree->empty = !has_own_children(tree);
}

static void signal_own(const struct process_tree *tree, int sig)
{
	if (tree->command > 0 && !tree->over)
		insist(kill(tree->command, sig), tree->command, -1, sig);
	signal_found(find_all(tree, getpid(), sig), getpid(), tree->command, sig);
}

void tree_signal_below(pid_t root, int sig)
{
	signal_found(find_all(NULL, root, sig), root, 0, sig);
}

static size_t list_own(const struct process_tree *tree, pid_t *pids, size_t most)
{
	size_t count = find_all(tree, getpid(), SIGKILL);

	if (count > most)
		count = most;
	for (size_t i = 0; i < count; i++)
		pids[i] = found[i].pid;
	return count;
}

static const struct tree_ops own_tree = {
	.ours = true, .reap = reap_own, .signal = signal_own, .list = list_own};

bool tree_open(struct process_tree *tree)
{
	tree->ops = &own_tree;
	tree_close(); /* the list of the process that forked us */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return false;
	/* ECHILD: no children, the ordinary case. */
	if (waitid(P_ALL, 0, NULL, WEXITED | WNOHANG | WNOWAIT) == 0)
		tree_record_strangers(tree, 0);
	return true;
}

bool tree_is_ours(const struct process_tree *tree)
{
	return tree->ops->ours;
}

void tree_reap(struct process_tree *tree)
{
	tree->ops->reap(tree);
}

void tree_signal(const struct process_tree *tree, int sig)
{
	tree->ops->signal(tree, sig);
}

size_t tree_list(const struct process_tree *tree, pid_t *pids, size_t most)
{
	return tree->ops->list(tree, pids, most);
}
