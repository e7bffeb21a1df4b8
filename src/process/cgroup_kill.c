#include "process/cgroup_kill.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TRIES 20 /* a ms each, until the killed process has left its cgroup */

/* The process's place in the v2 tree, "0::PATH" of /proc/PID/cgroup (cgroups(7)). */
static bool find_place(pid_t pid, char place[static PATH_MAX])
{
	char path[48], line[PATH_MAX];
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);

	FILE *file = fopen(path, "re");

	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		found = strncmp(line, "0::/", 4) == 0;
	}
	if (file)
		fclose(file);
	if (found)
		strcpy(place, line + 3);
	return found;
}

/* The path at which the v2 tree is mounted whole: fields 4 and 5 of mountinfo (proc(5)), the type
 * behind " - ". */
static bool find_mount(char mount[static PATH_MAX])
{
	char line[2 * PATH_MAX];
	bool found = false;
	FILE *file = fopen("/proc/self/mountinfo", "re");

	while (file && !found && fgets(line, sizeof(line), file))
		found = strstr(line, " - cgroup2 ") &&
			sscanf(line, "%*s %*s %*s / %4095s", mount) == 1;
	if (file)
		fclose(file);
	return found;
}

static bool is_within(const char *place, const char *ours)
{
	size_t length = strlen(ours);

	return strcmp(ours, "/") == 0 || (strncmp(place, ours, length) == 0 &&
						 (place[length] == '\0' || place[length] == '/'));
}

static bool put(int folder, const char *name, const char *text)
{
	int fd = openat(folder, name, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* Through a descriptor, because a path may be longer than PATH_MAX once something is appended. */
static bool kill_in(int ours, pid_t pid, int pidfd)
{
	struct pollfd over = {.fd = pidfd, .events = POLLIN};
	struct timespec pause = {.tv_nsec = 1000000};
	char name[32], number[16];
	bool done = false;

	snprintf(name, sizeof(name), "dlock.%d", (int)getpid());
	snprintf(number, sizeof(number), "%d", (int)pid);
	if (mkdirat(ours, name, 0755) < 0 && errno != EEXIST)
		return false;

	int folder = openat(ours, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (folder >= 0) {
		done = put(folder, "cgroup.procs", number) && poll(&over, 1, 0) == 0 &&
		       put(folder, "cgroup.kill", "1");
		close(folder);
	}
	for (int i = 0; i < TRIES && unlinkat(ours, name, AT_REMOVEDIR) < 0 && errno == EBUSY; i++)
		nanosleep(&pause, NULL);
	return done;
}

bool cgroup_kill(pid_t pid, int pidfd)
{
	char path[2 * PATH_MAX], ours[PATH_MAX], place[PATH_MAX];

	if (!find_mount(path) || !find_place(getpid(), ours) || !find_place(pid, place) ||
		!is_within(place, ours))
		return false;
	strcat(path, ours);

	int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool done = folder >= 0 && kill_in(folder, pid, pidfd);

	if (folder >= 0)
		close(folder);
	return done;
}
