/* Ending a process by its cgroup: where we may not signal it, but own the part of the tree of
 * control groups that it is in. */
#ifndef DLOCK_PROCESS_CGROUP_KILL_H
#define DLOCK_PROCESS_CGROUP_KILL_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Kills one of our descendants that kill(2) is refused for, a set-user-ID program say: moves it
 * into a cgroup of its own below ours, which it makes and removes, and has the kernel kill that
 * (cgroup.kill, Linux 5.14; Documentation/admin-guide/cgroup-v2.rst). False where that cannot be:
 * no cgroup v2, or none that was delegated to us. Blocks for some 10 ms: the kernel waits for all
 * processors before it moves a process. pidfd is the same process, and says whether the pid still
 * is its; -1 where it cannot be another's, a child that only we can reap. The thread that watches
 * the tree.
 */
bool cgroup_kill(pid_t pid, int pidfd);

#endif
