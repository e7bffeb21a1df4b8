#include "watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inherited.h"
#include "keeper.h"
#include "lease.h"
#include "news.h"

#define STOP_SLACK (50 * NANOS_PER_MS) /* what the keeper may be late before the front steps in */
#define KILL_SLACK (100 * NANOS_PER_MS)
#define KILLING_SLACK                                                                              \
	(2 * NANOS_PER_SEC) /* it is at work, and gives up by itself after a second                \
			     */
#define RELEASE_SLACK (500 * NANOS_PER_MS)
#define OVERRUN_SLACK NANOS_PER_SEC /* nothing is at stake but --max-run itself */

bool watch_open(struct watch *watch, const struct inherited *inherited)
{
	sigset_t other = inherited->forwarded;

	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&inherited->ending, sig) == 1)
			sigdelset(&other, sig);
	*watch = (struct watch){.inherited = inherited, .keeper_fd = -1};
	tree_open(&watch->tree);
	watch->ending_fd = signalfd(-1, &inherited->ending, SFD_CLOEXEC | SFD_NONBLOCK);
	watch->other_fd = signalfd(-1, &other, SFD_CLOEXEC | SFD_NONBLOCK);
	watch->news_fd = news_open();
	watch->timer = clock_timer_open();
	watch->lease = lease_open();
	return watch->ending_fd >= 0 && watch->other_fd >= 0 && watch->news_fd >= 0 &&
	       watch->timer >= 0 && watch->lease;
}

static enum lease_phase phase(const struct watch *watch)
{
	return atomic_load(&watch->lease->phase);
}

static void reap_keeper(struct watch *watch)
{
	while (waitpid(watch->keeper, NULL, 0) < 0 && errno == EINTR)
		continue;
	close(watch->keeper_fd);
	watch->keeper = 0;
	watch->keeper_fd = -1;
}

static void kill_keeper(struct watch *watch)
{
	kill(watch->keeper, SIGKILL);
	reap_keeper(watch);
}

bool watch_start(struct watch *watch, struct keeper_task *task)
{
	lease_reset(watch->lease);
	task->lease = watch->lease;
	task->news_fd = watch->news_fd;
	watch->asking_since = clock_now();
	watch->keeper = keeper_start(task);
	if (watch->keeper < 0) {
		watch->keeper = 0;
		return false;
	}
	watch->keeper_fd = pidfd_open(watch->keeper, 0);
	if (watch->keeper_fd >= 0)
		return true;

	int error = errno;

	kill_keeper(watch);
	errno = error;
	return false;
}

/* Whether COMMAND has got this signal as well, from the terminal. */
static bool note_terminal_signal(struct watch *watch, const struct signalfd_siginfo *info)
{
	int sig = (int)info->ssi_signo;

	if (!inherited_is_shared(watch->inherited, sig, info->ssi_code))
		return false;
	if (sig == SIGINT || sig == SIGQUIT)
		watch->terminal_signal = sig;
	return true;
}

static void forward(struct watch *watch, const struct signalfd_siginfo *info)
{
	if (!note_terminal_signal(watch, info))
		pidfd_send_signal(watch->keeper_fd, (int)info->ssi_signo, NULL, 0);
}

void watch_note_signals(struct watch *watch)
{
	struct signalfd_siginfo info;

	while (read(watch->ending_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		watch->ending_signal = (int)info.ssi_signo;
		note_terminal_signal(watch, &info);
	}
}

/* Passes signals on. The one that comes before the lock is granted ends it all: returned, else 0.
 * A keeper that was denied and is just about to end is told nothing any more: it would be lost. */
static int heed_signals(struct watch *watch, bool *continued)
{
	struct signalfd_siginfo info;

	while (read(watch->ending_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (lease_decide(watch->lease, LEASE_CANCELLED) || phase(watch) == LEASE_DENIED) {
			kill_keeper(watch);
			return (int)info.ssi_signo;
		}
		watch->ending_signal = (int)info.ssi_signo;
		forward(watch, &info);
	}
	while (read(watch->other_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		*continued |= info.ssi_signo == SIGCONT;
		forward(watch, &info);
	}
	return 0;
}

/* COMMAND was stopped: so is dlock, or the shell would wait for it for ever. News that is older
 * than a SIGCONT is void: Ctrl-Z stopped us along with COMMAND, and we have been continued since.
 */
static void heed_news(struct watch *watch, bool continued)
{
	uint64_t times;

	if (read(watch->news_fd, &times, sizeof(times)) < 0 || continued)
		return;
	if (watch->inherited->terminal && atomic_load(&watch->lease->command_stopped))
		raise(SIGTSTP);
}

/* When to look whether the keeper does its duty by the lease. */
static nanos next_look(const struct watch *watch, const struct keeper_task *task)
{
	nanos valid_until = atomic_load(&watch->lease->valid_until);

	if (phase(watch) == LEASE_RELEASING)
		return watch->lease->release_until + RELEASE_SLACK;
	if (phase(watch) == LEASE_KILLING)
		return lease_kill_at(valid_until) + KILLING_SLACK;
	if (task->warn_when_lost)
		return NANOS_NEVER;
	if (valid_until ==
		0) /* nobody wakes us when the grant comes, which spares a switch of processes */
		valid_until = lease_valid_until(&task->terms, watch->asking_since);
	return watch->stood_still ? lease_kill_at(valid_until) + KILL_SLACK
				  : lease_stop_at(&task->terms, valid_until) + STOP_SLACK;
}

/* When to look whether it does so by --max-run. */
static nanos overrun_look(const struct watch *watch, const struct keeper_task *task)
{
	const struct lease_terms *terms = &task->terms;

	switch (phase(watch)) {
	case LEASE_ASKING: /* nobody wakes us when the grant comes, but it will not be sooner */
		return clock_after(lease_overrun_at(terms, clock_now()), OVERRUN_SLACK);
	case LEASE_HELD:
		return clock_after(lease_overrun_at(terms, watch->lease->granted_at),
			OVERRUN_SLACK + (watch->overrun ? terms->grace : 0));
	default:
		return NANOS_NEVER;
	}
}

/* Where the keeper stands still while --max-run ends: the same. */
static void end_overrun(struct watch *watch, const struct keeper_task *task)
{
	if (clock_now() < overrun_look(watch, task) || phase(watch) != LEASE_HELD)
		return;
	if (watch->overrun) {
		kill(watch->keeper, SIGKILL);
		return;
	}
	watch->overrun = true;
	tree_signal_below(watch->keeper, task->stop_signal);
}

/* Where the keeper stands still (SIGSTOP) while the lease runs out: asks the tree to stop, and in
 * the end kills the keeper. That kills COMMAND at once, and the rest of the tree becomes ours. */
static void step_in(struct watch *watch, const struct keeper_task *task)
{
	if (clock_now() < next_look(watch, task))
		return;
	switch (phase(watch)) {
	case LEASE_ASKING:
		watch->asking_since = clock_now();
		return;
	case LEASE_HELD:
		if (!watch->stood_still) {
			watch->stood_still = true;
			tree_signal_below(watch->keeper, task->stop_signal);
			return;
		}
		break;
	case LEASE_STOPPING: /* as it should, so far */
		if (!watch->stood_still) {
			watch->stood_still = true;
			return;
		}
		break;
	default:
		break;
	}
	kill(watch->keeper, SIGKILL);
}

/* When the keeper must have told what became of the request. */
static nanos answer_look(const struct watch *watch, const struct keeper_task *task)
{
	return phase(watch) == LEASE_ASKING ? clock_after(task->answer_until, STOP_SLACK)
					    : NANOS_NEVER;
}

/* Where it has not: it stands still, and is killed; what it asked for is to be taken back. */
static bool end_asking(struct watch *watch, const struct keeper_task *task)
{
	if (clock_now() < answer_look(watch, task) || !lease_decide(watch->lease, LEASE_CANCELLED))
		return false;
	kill_keeper(watch);
	return true;
}

static nanos sooner(nanos a, nanos b)
{
	return a < b ? a : b;
}

static nanos next_due(const struct watch *watch, const struct keeper_task *task)
{
	return sooner(answer_look(watch, task),
		sooner(next_look(watch, task), overrun_look(watch, task)));
}

static bool has_done_its_work(const struct watch *watch)
{
	switch (phase(watch)) {
	case LEASE_DENIED:
	case LEASE_PARTED:
	case LEASE_ENDED:
		return true;
	default:
		return false;
	}
}

enum watch_end watch_run(struct watch *watch, const struct keeper_task *task, int *signal)
{
	for (;;) {
		struct pollfd fds[] = {
			{.fd = watch->keeper_fd, .events = POLLIN},
			{.fd = watch->ending_fd, .events = POLLIN},
			{.fd = watch->other_fd, .events = POLLIN},
			{.fd = watch->news_fd, .events = POLLIN},
			{.fd = watch->timer, .events = POLLIN},
		};
		bool continued = false;

		clock_timer_set(watch->timer, next_due(watch, task));
		if (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0)
			continue;
		if (fds[0].revents) {
			reap_keeper(watch);
			return has_done_its_work(watch) ? WATCH_OVER : WATCH_DIED;
		}
		if ((*signal = heed_signals(watch, &continued)) != 0)
			return WATCH_CANCELLED;
		if (phase(watch) == LEASE_LINGERING || phase(watch) == LEASE_ENDED)
			return WATCH_OVER;
		if (fds[3].revents)
			heed_news(watch, continued);
		if (end_asking(watch, task))
			return WATCH_LATE;
		end_overrun(watch, task);
		step_in(watch, task);
	}
}

void watch_stop_orphans(struct watch *watch, const struct keeper_task *task)
{
	nanos limit = lease_kill_at(atomic_load(&watch->lease->valid_until));
	struct process_tree *tree = &watch->tree;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	tree->command = atomic_load(&watch->lease->command);
	tree_reap(tree);
	if (tree->empty)
		return;
	stopping_begin(&watch->stopping, tree, task->stop_signal, task->terms.grace);
	while (tree_reap(tree), !tree->empty && !stopping_is_hopeless(&watch->stopping, tree)) {
		stopping_step(&watch->stopping, tree, limit);

		nanos left = stopping_due(&watch->stopping, limit) - clock_now();

		if (left > 0)
			sigtimedwait(&child, NULL,
				&(struct timespec){left / NANOS_PER_SEC, left % NANOS_PER_SEC});
	}
}
