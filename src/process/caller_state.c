#include "process/caller_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "process/sched_slice.h"

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

void caller_state_take(struct caller_state *caller_state)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction standard = {.sa_handler = SIG_DFL};
	sigset_t blocked;

	fill_standard_streams();
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
	caller_state->slice = sched_slice_shorten();
}

void caller_state_keep_secret(struct caller_state *caller_state)
{
	struct rlimit none;

	if (getrlimit(RLIMIT_CORE, &caller_state->core) != 0)
		return;
	none = (struct rlimit){0, caller_state->core.rlim_max};
	caller_state->secret = setrlimit(RLIMIT_CORE, &none) == 0;
}

void caller_state_raise_files(struct caller_state *caller_state, rlim_t least)
{
	struct rlimit more;

	if (getrlimit(RLIMIT_NOFILE, &caller_state->files) != 0)
		return;
	more = caller_state->files;
	more.rlim_cur = least < more.rlim_max ? least : more.rlim_max;
	caller_state->more_files = setrlimit(RLIMIT_NOFILE, &more) == 0;
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
	sched_slice_set(caller_state->slice);
	sigprocmask(SIG_SETMASK, &caller_state->mask, NULL);
}

static void close_descriptors(bool own, int but)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);
		int flags = fcntl(fd, F_GETFD);

		if (fd > STDERR_FILENO && fd != but && fd != dirfd(dir) && flags >= 0 &&
			(own || !(flags & FD_CLOEXEC)))
			close(fd);
	}
	if (dir)
		closedir(dir);
}

static void close_standard_streams(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
}

void caller_state_close(void)
{
	close_descriptors(false, -1);
	close_standard_streams();
}

void caller_state_close_all(int but)
{
	close_descriptors(true, but);
	close_standard_streams();
}
