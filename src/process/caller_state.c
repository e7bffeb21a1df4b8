#include "process/caller_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/newer_libc.h"

#define SLICE_SHORTEST 100000 /* ns; less is taken for this */

static const int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};
static const int other_signals[] = {SIGWINCH, SIGCONT};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_ignored(int sig)
{
	struct sigaction action;

	return sigaction(sig, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* A blocked signal is queued even if it is ignored (sig_ignored() in kernel/signal.c). So an
 * ignored one must stay out of the mask, or nohup's HUP would arrive. */
static void add_not_ignored(sigset_t *set, const int *signals, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!is_ignored(signals[i]))
			sigaddset(set, signals[i]);
}

/* The next descriptor that dlock opens must not become stdout or stderr: messages would go to the
 * server. */
static void fill_standard_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", O_RDWR | O_CLOEXEC); /* the lowest free one: fd */
}

static bool has_terminal(void)
{
	int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return false; /* ENXIO */
	close(fd);
	return true;
}

/* The next descriptor above the standard streams in /proc/self/fd, in ascending order; -1: that was
 * all, and `dir` is closed. */
static int next_descriptor(DIR *dir)
{
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);

		if (fd > STDERR_FILENO && fd != dirfd(dir))
			return fd;
	}
	if (dir)
		closedir(dir);
	return -1;
}

static bool add_descriptor(struct caller_state *caller_state, int fd)
{
	int *all = reallocarray(caller_state->opened, caller_state->opened_count + 1, sizeof(*all));

	if (!all)
		return false;
	all[caller_state->opened_count++] = fd;
	caller_state->opened = all;
	return true;
}

/* All that is open just now. */
static void record_descriptors(struct caller_state *caller_state)
{
	DIR *dir = opendir("/proc/self/fd");
	int fd;

	caller_state->opened = NULL;
	caller_state->opened_count = 0;
	caller_state->opened_known = dir != NULL;
	while ((fd = next_descriptor(dir)) >= 0)
		caller_state->opened_known &= add_descriptor(caller_state, fd);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* If it is not known, dlock's own are known by close-on-exec alone. */
static bool is_callers(const struct caller_state *caller_state, int fd)
{
	return !caller_state->opened_known ||
	       (caller_state->opened_count > 0 &&
		       bsearch(&fd, caller_state->opened, caller_state->opened_count, sizeof(int),
			       compare));
}

/* The first version of sched_setattr(2)'s: glibc has none before 2.41, and <linux/sched/types.h>
 * does not go together with its <sched.h>. */
struct attributes {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t slice;
	uint64_t deadline;
	uint64_t period;
};

static bool get_attributes(struct attributes *attributes)
{
	return syscall(SYS_sched_getattr, 0, attributes, sizeof(*attributes), 0) == 0;
}

static bool set_attributes(const struct attributes *attributes)
{
	return syscall(SYS_sched_setattr, 0, attributes, 0) == 0;
}

/* Asks for the shortest. Returns what it was before, for set_slice() only; 0: it is as it was.
 * Children inherit it. */
static uint64_t shorten_slice(void)
{
	struct attributes attributes = {0};
	uint64_t before;

	/* A caller that has asked for another policy knows better; and an older kernel says 0. */
	if (!get_attributes(&attributes) || attributes.policy != SCHED_OTHER ||
		attributes.slice <= SLICE_SHORTEST)
		return 0;
	before = attributes.slice;
	attributes.slice = SLICE_SHORTEST;
	return set_attributes(&attributes) ? before : 0;
}

static void set_slice(uint64_t slice)
{
	struct attributes attributes = {0};

	if (slice == 0 || !get_attributes(&attributes))
		return;
	attributes.slice = slice;
	set_attributes(&attributes);
}

void caller_state_take(struct caller_state *caller_state)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction standard = {.sa_handler = SIG_DFL};
	sigset_t blocked;

	fill_standard_streams();
	record_descriptors(caller_state);
	sigemptyset(&caller_state->ending);
	add_not_ignored(&caller_state->ending, ending_signals, COUNT(ending_signals));
	caller_state->forwarded = caller_state->ending;
	add_not_ignored(&caller_state->forwarded, other_signals, COUNT(other_signals));

	blocked = caller_state->forwarded;
	sigaddset(&blocked, SIGCHLD);
	sigaddset(&blocked, SIGXFSZ); /* a message that its file has no room for is lost, no more */
	sigprocmask(SIG_BLOCK, &blocked, &caller_state->mask);
	sigaction(SIGPIPE, &ignore, &caller_state->on_pipe);
	sigaction(SIGCHLD, &standard, &caller_state->on_child);
	caller_state->terminal = has_terminal();
	caller_state->secret = caller_state->more_files = false;
	caller_state->slice = shorten_slice();
}

void caller_state_keep_secret(struct caller_state *caller_state)
{
	struct rlimit none;

	if (getrlimit(RLIMIT_CORE, &caller_state->core) != 0)
		return;
	none = (struct rlimit){0, caller_state->core.rlim_max};
	caller_state->secret = setrlimit(RLIMIT_CORE, &none) == 0;
}

bool caller_state_is_shared(const struct caller_state *caller_state, int sig, int code)
{
	if (!caller_state->terminal || code != SI_KERNEL)
		return false;
	switch (sig) {
	case SIGINT:
	case SIGQUIT:
	case SIGWINCH:
	case SIGCONT:
		return true;
	case SIGHUP: /* of one that hangs up: to the session's leader alone, by
		      * tty_signal_session_leader() */
		return getsid(0) != getpid();
	default: /* the kernel's own, but not the terminal's: an alarm(2) set before exec */
		return false;
	}
}

void caller_state_return(const struct caller_state *caller_state)
{
	sigaction(SIGPIPE, &caller_state->on_pipe, NULL);
	sigaction(SIGCHLD, &caller_state->on_child, NULL);
	if (caller_state->secret)
		setrlimit(RLIMIT_CORE, &caller_state->core);
	if (caller_state->more_files)
		setrlimit(RLIMIT_NOFILE, &caller_state->files);
	set_slice(caller_state->slice);
	sigprocmask(SIG_SETMASK, &caller_state->mask, NULL);
}

static void close_standard_streams(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
}

/* False on Linux before 5.11. */
static bool hide_between(int first, int last)
{
	return first > last ||
	       close_range((unsigned)first, (unsigned)last, CLOSE_RANGE_CLOEXEC) == 0;
}

/* All but the caller's, in as many calls as these leave gaps. */
static bool hide_gaps(const struct caller_state *caller_state)
{
	int first = STDERR_FILENO + 1;

	for (size_t i = 0; i < caller_state->opened_count; i++) {
		if (!hide_between(first, caller_state->opened[i] - 1))
			return false;
		first = caller_state->opened[i] + 1;
	}
	return hide_between(first, INT_MAX);
}

void caller_state_hide(const struct caller_state *caller_state)
{
	DIR *dir;
	int fd;

	if (!caller_state->opened_known || hide_gaps(caller_state))
		return;
	dir = opendir("/proc/self/fd");
	while ((fd = next_descriptor(dir)) >= 0)
		if (!is_callers(caller_state, fd))
			fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void caller_state_close(const struct caller_state *caller_state)
{
	DIR *dir = opendir("/proc/self/fd");
	int fd;

	while ((fd = next_descriptor(dir)) >= 0)
		if (is_callers(caller_state, fd) && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			close(fd);
	close_standard_streams();
}

void caller_state_close_all(int but)
{
	DIR *dir = opendir("/proc/self/fd");
	int fd;

	while ((fd = next_descriptor(dir)) >= 0)
		if (fd != but)
			close(fd);
	close_standard_streams();
}
