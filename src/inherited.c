#include "inherited.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "slice.h"

static const int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};
static const int other_signals[] = {SIGWINCH, SIGCONT};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_ignored(int sig)
{
	struct sigaction action;

	return sigaction(sig, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* A blocked signal is queued even where it is ignored (sig_ignored() in kernel/signal.c), so an
 * ignored one must stay out of the mask, or nohup's HUP would arrive. */
static void add_heeded(sigset_t *set, const int *signals, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!is_ignored(signals[i]))
			sigaddset(set, signals[i]);
}

/* The next descriptor that dlock opens must not become somebody's stdout: messages would go to the
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

void inherited_take(struct inherited *inherited)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction standard = {.sa_handler = SIG_DFL};
	sigset_t blocked;

	fill_standard_streams();
	sigemptyset(&inherited->ending);
	add_heeded(&inherited->ending, ending_signals, COUNT(ending_signals));
	inherited->forwarded = inherited->ending;
	add_heeded(&inherited->forwarded, other_signals, COUNT(other_signals));

	blocked = inherited->forwarded;
	sigaddset(&blocked, SIGCHLD);
	sigaddset(&blocked, SIGXFSZ); /* a message that its file has no room for is lost, no more */
	sigprocmask(SIG_BLOCK, &blocked, &inherited->mask);
	sigaction(SIGPIPE, &ignore, &inherited->on_pipe);
	sigaction(SIGCHLD, &standard, &inherited->on_child);
	inherited->terminal = has_terminal();
	inherited->secret = false;
	inherited->slice = slice_shorten();
}

void inherited_keep_secret(struct inherited *inherited)
{
	struct rlimit none;

	if (getrlimit(RLIMIT_CORE, &inherited->core) != 0)
		return;
	none = (struct rlimit){0, inherited->core.rlim_max};
	inherited->secret = setrlimit(RLIMIT_CORE, &none) == 0;
}

bool inherited_is_shared(const struct inherited *inherited, int sig, int code)
{
	if (!inherited->terminal || code != SI_KERNEL)
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

void inherited_return(const struct inherited *inherited)
{
	sigaction(SIGPIPE, &inherited->on_pipe, NULL);
	sigaction(SIGCHLD, &inherited->on_child, NULL);
	if (inherited->secret)
		setrlimit(RLIMIT_CORE, &inherited->core);
	slice_set(inherited->slice);
	sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

void inherited_close(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);
		int flags = fcntl(fd, F_GETFD);

		if (fd > STDERR_FILENO && flags >= 0 && !(flags & FD_CLOEXEC))
			close(fd);
	}
	if (dir)
		closedir(dir);
	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
}
