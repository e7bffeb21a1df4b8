/* Ending a process by its cgroup: one that we may not signal, in a part of the tree of control
 * groups that is ours. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * Kills one of our descendants that kill(2) is refused for, a set-user-ID program say. Moves it
 * into a cgroup of its own below ours, which is made and removed here, and has the kernel kill that
 * (cgroup.kill, Linux 5.14; Documentation/admin-guide/cgroup-v2.rst). False if that cannot be:
 * there is no cgroup v2, or none that was delegated to us. Blocks for some 10 ms: the kernel waits
 * for all processors before it moves a process.
 *
 * `pidfd` is of the same process, and tells whether the pid is still that one's; -1 if the pid
 * cannot be another's, as that of a child that only we can reap. To be called by the thread that
 * watches the tree.
 */
bool cgroup_kill(pid_t pid, int pidfd);
