/*
 * sandbox TWIN COMMAND [ARG]...: runs COMMAND in a PID namespace of its own, with a /proc of its
 * own, as bubblewrap and a container with the host's network do: the same host name, boot and
 * network namespace. COMMAND's pid is 2 in each.
 *
 * TWIN is a file. The sandbox that makes it writes COMMAND's start tick into it; every other takes
 * that tick over by a time namespace (Linux 5.6), so that all look as if they had begun in the same
 * 10 ms: what happens by chance otherwise is certain.
 *
 * Exits as COMMAND did; 125: the kernel lets us make no such namespaces.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define NANOS_PER_SEC  1000000000LL
#define START_FIELD    22 /* of /proc/PID/stat */
#define NO_TICK        (-1)
#define LOOK_EVERY     1000 /* us */
#define CANNOT_SANDBOX 125

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "sandbox: %s: %s\n", what, strerror(errno));
	_exit(CANNOT_SANDBOX);
}

static void write_file(const char *path, int flags, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);
	size_t length = strlen(text);

	if (fd < 0 || write(fd, text, length) != (ssize_t)length || close(fd) != 0)
		die(path);
}

/* A process that is not root gets a user namespace of its own, and is the same user there. */
static void become_able(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (uid == 0)
		return;
	if (unshare(CLONE_NEWUSER) != 0)
		die("unshare");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	write_file("/proc/self/uid_map", 0, map);
	write_file("/proc/self/setgroups", 0, "deny");
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	write_file("/proc/self/gid_map", 0, map);
}

static long long own_tick(void)
{
	char text[1024] = "";
	FILE *file = fopen("/proc/self/stat", "re");
	const char *at;

	if (!file || !fgets(text, sizeof(text), file))
		die("/proc/self/stat");
	fclose(file);
	at = strrchr(text, ')');
	for (int field = 2; at && field < START_FIELD; field++)
		at = strchr(at + 1, ' ');
	return at ? atoll(at + 1) : NO_TICK;
}

/* What another has written, once that is a whole line. */
static long long read_tick(const char *path)
{
	char text[64] = "";
	FILE *file = fopen(path, "re");
	bool whole;

	if (!file)
		die(path);
	whole = fgets(text, sizeof(text), file) && strchr(text, '\n');
	fclose(file);
	return whole ? atoll(text) : NO_TICK;
}

/* False: another was there before us. */
static bool leave_tick(const char *path, long long tick)
{
	char text[32];
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0 && errno == EEXIST)
		return false;
	snprintf(text, sizeof(text), "%lld\n", tick);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
	close(fd);
	return true;
}

/* Start times are shown as the reader's time namespace has them, and so is one's own. */
static void look_as_old(long long from, long long to)
{
	long long nanos = (to - from) * (NANOS_PER_SEC / sysconf(_SC_CLK_TCK));
	long long seconds = nanos / NANOS_PER_SEC;
	char offset[96];
	int fd;

	nanos %= NANOS_PER_SEC;
	if (nanos < 0) {
		nanos += NANOS_PER_SEC;
		seconds--;
	}
	if (unshare(CLONE_NEWTIME) != 0)
		die("unshare");
	snprintf(offset, sizeof(offset), "boottime %lld %lld\n", seconds, nanos);
	write_file("/proc/self/timens_offsets", 0, offset);
	fd = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWTIME) != 0)
		die("setns");
	close(fd);
}

static _Noreturn void run(const char *twin, char **argv)
{
	long long tick = own_tick(), other;

	if (!leave_tick(twin, tick)) {
		while ((other = read_tick(twin)) == NO_TICK)
			usleep(LOOK_EVERY);
		look_as_old(tick, other);
		if (own_tick() != other || getpid() != 2)
			die("no twin");
	}
	execvp(argv[0], argv);
	die(argv[0]);
}

/* The first process of the namespace: all others end with it. */
static _Noreturn void begin(const char *twin, char **argv)
{
	pid_t command, ended;
	int status, own = 0;

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		mount("proc", "/proc", "proc", 0, NULL) != 0)
		die("/proc");
	command = fork();
	if (command == 0)
		run(twin, argv);
	while ((ended = wait(&status)) > 0)
		if (ended == command)
			own = status;
	_exit(WIFEXITED(own) ? WEXITSTATUS(own) : 128 + WTERMSIG(own));
}

int main(int argc, char **argv)
{
	int status;
	pid_t first;

	if (argc < 3)
		return CANNOT_SANDBOX;
	become_able();
	if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
		die("unshare");
	first = fork();
	if (first == 0)
		begin(argv[1], argv + 2);
	if (first < 0 || waitpid(first, &status, 0) < 0)
		die("fork");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
