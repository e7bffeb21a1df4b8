#include "supervise/keeper_watch.h"

#include <bsd/string.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/newer_libc.h"
#include "base/number.h"
#include "base/wakeup.h"
#include "process/caller_state.h"
#include "lock/nesting.h"
#include "supervise/task.h"
#include "supervise/lease.h"
#include "supervise/notify.h"

#define STOP_SLACK    (50 * NANOS_PER_MS) /* how late the keeper may be before the front steps in */
#define KILL_SLACK    (100 * NANOS_PER_MS) /* within the reserve and the least margin of lease.h */
#define NOTE_EVERY    NANOS_PER_SEC
#define ROUND_EVERY   (20 * NANOS_PER_MS)
#define LOOK_EVERY    (20 * NANOS_PER_MS)
#define RELEASE_SLACK (500 * NANOS_PER_MS)
#define SHORT_RUN     (10 * NANOS_PER_MS)
#define OVERRUN_SLACK NANOS_PER_SEC /* nothing is at stake but --max-run itself */

#define ANSWER_SLACK (500 * NANOS_PER_MS) /* beyond what a late keeper gives the server */
#define ANSWER_LATE  (100 * NANOS_PER_MS) /* the front has stood still, if it comes so late */
#define WAIT_LEAST   (80 * NANOS_PER_MS)  /* the time that a late keeper gets at the end of -w */
#define CANCEL_LIMIT (600 * NANOS_PER_MS) /* for a keeper that takes back what it asked for */

bool keeper_watch_open(struct keeper_watch *watch, struct task *task, struct notify *notify)
{
	const struct caller_state *caller_state = task->caller_state;
	sigset_t other = caller_state->forwarded;
	int pipe[2];

	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&caller_state->ending, sig) == 1)
			sigdelset(&other, sig);
	*watch = (struct keeper_watch){.task = task,
		.lease = task->lease,
		.keeper_fd = -1,
		.bystander_at = NANOS_NEVER,
		.bystander = BYSTANDER_NONE};
	watch->ending_fd = signalfd(-1, &caller_state->ending, SFD_CLOEXEC | SFD_NONBLOCK);
	watch->other_fd = signalfd(-1, &other, SFD_CLOEXEC | SFD_NONBLOCK);
	task->wakeup_fd = wakeup_open();
	watch->timer = clock_timer_open();
	if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	task->news_fd = pipe[0];
	task->tell_fd = pipe[1];
	watch->notify = notify;
	wait_line_open(&watch->line, task, notify);
	return watch->ending_fd >= 0 && watch->other_fd >= 0 && task->wakeup_fd >= 0 &&
	       watch->timer >= 0;
}

static enum lease_phase phase(const struct keeper_watch *watch)
{
	return atomic_load(&watch->lease->phase);
}

static void reap_keeper(struct keeper_watch *watch)
{
	while (waitpid(watch->keeper, NULL, 0) < 0 && errno == EINTR)
		continue;
	close(watch->keeper_fd);
	watch->keeper = 0;
	watch->keeper_fd = -1;
}

void keeper_watch_close(struct keeper_watch *watch)
{
	const int fds[] = {watch->ending_fd, watch->other_fd, watch->timer, watch->task->wakeup_fd,
		watch->task->tell_fd};

	if (watch->keeper != 0)
		reap_keeper(watch);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
}

static void kill_keeper(struct keeper_watch *watch)
{
	kill(watch->keeper, SIGKILL);
	reap_keeper(watch);
}

bool keeper_watch_start(struct keeper_watch *watch, pid_t (*start)(const struct task *task))
{
	watch->asking_since = clock_now();
	atomic_store(&watch->lease->answer_due, NANOS_NEVER);
	watch->keeper = start(watch->task);
	if (watch->keeper < 0) {
		watch->keeper = 0;
		return false;
	}
	close(watch->task->news_fd);
	watch->keeper_fd = pidfd_open(watch->keeper, 0);
	if (watch->task->caller_state->terminal)
		watch->bystander_at = clock_after(watch->asking_since, SHORT_RUN);
	(void)tree_prepare(); /* while it can be had: COMMAND may use up the files */
	if (watch->keeper_fd >= 0)
		return true;

	int error = errno;
	bool decided = lease_decide(watch->lease, LEASE_CANCELLED);

	kill_keeper(watch);
	errno = error;
	/* COMMAND may run already: keeper_watch_run finds that the keeper has died. */
	return !decided && watch->lease->granted_at != 0;
}

static void tell_keeper(const struct keeper_watch *watch)
{
	(void)!write(watch->task->tell_fd, "", 1);
}

/* Whether COMMAND has got this signal as well, from the terminal. */
static bool record_terminal_signal(struct keeper_watch *watch, const struct signalfd_siginfo *info)
{
	int sig = (int)info->ssi_signo;

	if (!caller_state_is_shared(watch->task->caller_state, sig, info->ssi_code))
		return false;
	if (sig == SIGINT || sig == SIGQUIT)
		watch->terminal_signal = sig;
	return true;
}

/* Sends the keeper what was held back, but for what COMMAND has as well. */
static void send_held(struct keeper_watch *watch)
{
	uint64_t held = bystander_decide(&watch->bystander);

	for (int sig = 1; held != 0; sig++, held >>= 1)
		if (held & 1)
			pidfd_send_signal(watch->keeper_fd, sig, NULL, 0);
}

static void forward(struct keeper_watch *watch, const struct signalfd_siginfo *info)
{
	if (record_terminal_signal(watch, info))
		send_held(watch);
	else if (!bystander_hold(&watch->bystander, (int)info->ssi_signo))
		pidfd_send_signal(watch->keeper_fd, (int)info->ssi_signo, NULL, 0);
}

void keeper_watch_record_signals(struct keeper_watch *watch)
{
	struct signalfd_siginfo info;

	while (read(watch->ending_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		watch->ending_signal = (int)info.ssi_signo;
		record_terminal_signal(watch, &info);
	}
}

/* True: the lock is not to be had any more, and the keeper takes back what it asked for. */
static bool cancel(struct keeper_watch *watch)
{
	if (!lease_decide(watch->lease, LEASE_CANCELLED))
		return phase(watch) == LEASE_CANCELLED ||
		       (phase(watch) == LEASE_ENDED && watch->lease->granted_at == 0);
	watch->cancel_until = clock_now() + CANCEL_LIMIT;
	tell_keeper(watch);
	return true;
}

/* Passes signals on. The one that comes before the lock is granted ends it all. */
static void handle_signals(struct keeper_watch *watch, bool *continued)
{
	struct signalfd_siginfo info;

	while (read(watch->ending_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (cancel(watch)) {
			watch->cancel_signal = (int)info.ssi_signo;
			continue;
		}
		watch->ending_signal = (int)info.ssi_signo;
		forward(watch, &info);
	}
	while (read(watch->other_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		bool asking = phase(watch) == LEASE_ASKING;

		if (asking && info.ssi_signo != SIGCONT)
			continue;
		*continued |= info.ssi_signo == SIGCONT;
		forward(watch, &info);
		if (asking)
			tell_keeper(watch); /* the front runs again */
	}
}

/* COMMAND was stopped: so is dlock, or the shell would wait for it for ever. News that is older
 * than a SIGCONT is void: Ctrl-Z stopped us along with COMMAND, and we have been continued since.
 */
static void handle_news(struct keeper_watch *watch, bool continued)
{
	uint64_t times;

	if (read(watch->task->wakeup_fd, &times, sizeof(times)) < 0 || continued)
		return;
	if (watch->task->caller_state->terminal && atomic_load(&watch->lease->command_stopped))
		raise(SIGTSTP);
}

static nanos later(nanos a, nanos b)
{
	return a > b ? a : b;
}

/* Whether the keeper has been at work since the last look. It gives up by itself after a second. */
static bool has_moved(struct keeper_watch *watch)
{
	unsigned rounds = atomic_load(&watch->lease->rounds);
	bool moved = rounds != watch->rounds;

	watch->rounds = rounds;
	watch->moved_at = clock_now();
	return moved;
}

/* When to look whether the keeper does its duty by the lease. */
static nanos next_look(const struct keeper_watch *watch)
{
	nanos valid_until = lease_validity(watch->lease);

	if (phase(watch) == LEASE_RELEASING)
		return watch->lease->release_until + RELEASE_SLACK;
	if (phase(watch) == LEASE_KILLING)
		return clock_after(later(lease_kill_at(valid_until), watch->moved_at), KILL_SLACK);
	if (watch->task->warn_when_lost || phase(watch) == LEASE_CANCELLED ||
		phase(watch) == LEASE_ENDED)
		return NANOS_NEVER;
	if (valid_until == 0) /* the grant does not wake us, which spares a switch of processes */
		valid_until = lease_valid_until(&watch->lease->terms, watch->asking_since);
	return watch->stood_still
		       ? clock_after(lease_kill_at(valid_until), KILL_SLACK)
		       : clock_after(lease_stop_at(&watch->lease->terms, valid_until), STOP_SLACK);
}

/* When to look whether it does so by --max-run. */
static nanos overrun_look(const struct keeper_watch *watch)
{
	const struct lease_terms *terms = &watch->lease->terms;

	switch (phase(watch)) {
	case LEASE_ASKING: /* the grant does not wake us, but it will not be sooner */
		return clock_after(lease_overrun_at(terms, clock_now()), OVERRUN_SLACK);
	case LEASE_HELD:
		return clock_after(lease_overrun_at(terms, watch->lease->granted_at),
			OVERRUN_SLACK + (watch->overrun ? terms->grace : 0));
	default:
		return NANOS_NEVER;
	}
}

/* Kills the keeper with all that is below it: a keeper that hangs in the kernel (state D) does not
 * die at once, and COMMAND dies only with it. Done again in every round, until the keeper is gone;
 * what it leaves is ours then. If it is no child of ours, all are stopped and recorded before it
 * dies. */
static void end_keeper(struct keeper_watch *watch)
{
	if (tree_is_ours(&watch->tree)) {
		tree_signal_below(watch->keeper, SIGKILL);
		kill(watch->keeper, SIGKILL);
	} else {
		tree_signal(&watch->tree, SIGKILL);
	}
	watch->kills_keeper = true;
	watch->next_round = clock_now() + ROUND_EVERY;
}

/* The same if the keeper stands still while --max-run ends. */
static void end_overrun(struct keeper_watch *watch)
{
	if (clock_now() < later(overrun_look(watch), watch->next_round) ||
		phase(watch) != LEASE_HELD)
		return;
	if (watch->overrun) {
		end_keeper(watch);
		return;
	}
	watch->overrun = true;
	tree_signal_below(watch->keeper, watch->task->stop_signal);
}

/* If the keeper stands still (SIGSTOP) while the lease runs out: asks the tree to stop, and in the
 * end kills the keeper. Its end kills COMMAND at once, and the rest of the tree becomes ours. */
static void step_in(struct keeper_watch *watch)
{
	if (clock_now() < later(next_look(watch), watch->next_round))
		return;
	switch (phase(watch)) {
	case LEASE_ASKING:
		watch->asking_since = clock_now();
		return;
	case LEASE_HELD:
		if (!watch->stood_still) {
			watch->stood_still = true;
			tree_signal_below(watch->keeper, watch->task->stop_signal);
			return;
		}
		break;
	case LEASE_STOPPING: /* as it should, so far */
		if (!watch->stood_still) {
			watch->stood_still = true;
			return;
		}
		break;
	case LEASE_KILLING:
		if (has_moved(watch))
			return;
		watch->stood_still = true;
		break;
	case LEASE_RELEASING: /* if the whole host stood still, the answer is only to be read */
		if (!watch->release_late) {
			watch->release_late = true;
			watch->next_round = clock_now() + RELEASE_SLACK;
			return;
		}
		break;
	default:
		break;
	}
	end_keeper(watch);
}

/* When the keeper must have told what became of the request, or have taken it back. */
static nanos answer_look(const struct keeper_watch *watch)
{
	if (phase(watch) == LEASE_CANCELLED)
		return watch->cancel_until;
	if (phase(watch) != LEASE_ASKING)
		return NANOS_NEVER;
	return later(clock_after(atomic_load(&watch->lease->answer_due), STOP_SLACK),
		watch->answer_more);
}

/* If it has not, it stands still. The front may have stood still as well, and be the first of the
 * two that runs again, while the grant lies in the keeper's socket: so the keeper's time counts
 * from when the front notices; and once more if the front comes late to that, too. */
static bool gives_more_time(struct keeper_watch *watch, nanos due, nanos now)
{
	bool waited = atomic_load(&watch->lease->answer_due) ==
		      clock_after(watch->task->started, watch->task->wait);

	if (phase(watch) == LEASE_CANCELLED || (watch->answer_late && now - due < ANSWER_LATE))
		return false;
	watch->answer_late = true;
	watch->answer_more = now + (waited ? WAIT_LEAST : DEADLINE_LEAST) + ANSWER_SLACK;
	return true;
}

/* A keeper that stands still is killed; what it asked for is to be taken back. */
static bool end_asking(struct keeper_watch *watch)
{
	nanos now = clock_now(), due = answer_look(watch);

	if (now < due || gives_more_time(watch, due, now) ||
		(phase(watch) != LEASE_CANCELLED && !lease_decide(watch->lease, LEASE_CANCELLED)))
		return false;
	kill_keeper(watch);
	return true;
}

/* ---- while the keeper waits ---- */

/* If a dlock around this one has what the keeper waits for, that takes its request back. If it has
 * other locks, the keeper asks anew, and tells of these. */
static void attend_wait(struct keeper_watch *watch)
{
	struct lease *lease = watch->lease;
	bool learnt = false;

	if (phase(watch) != LEASE_ASKING)
		return;
	watch->around = wait_line_attend(&watch->line, &learnt);
	if (watch->around && !cancel(watch))
		watch->around = NULL;
	if (watch->around || !learnt)
		return;
	strlcpy(lease->learnt, watch->task->nesting->held, sizeof(lease->learnt));
	atomic_store(&lease->has_learnt, true);
	tell_keeper(watch);
}

/* Once the keeper has died its children are among ours, or no longer to be found. So what must be
 * told from them is recorded before: what is not COMMAND's; or what is, if it lingers and does not
 * become ours. */
static bool has_to_record(const struct keeper_watch *watch)
{
	return !tree_is_ours(&watch->tree) || watch->tree.stranger_count > 0;
}

static void record_others(struct keeper_watch *watch)
{
	if (!has_to_record(watch) || clock_now() < watch->note_at)
		return;
	if (tree_is_ours(&watch->tree))
		tree_record_strangers(&watch->tree, watch->keeper);
	else
		tree_reap(&watch->tree);
	watch->note_at = clock_now() + NOTE_EVERY;
}

/* A short run has none. While dlock waits nobody but the keeper is in our group. */
static void start_bystander(struct keeper_watch *watch)
{
	if (clock_now() < watch->bystander_at || phase(watch) == LEASE_ASKING)
		return;
	watch->bystander_at = NANOS_NEVER;
	bystander_start(&watch->bystander);
}

static nanos next_due(const struct keeper_watch *watch)
{
	nanos due = number_least(next_look(watch), overrun_look(watch));

	due = number_least(answer_look(watch), later(due, watch->next_round));
	due = number_least(due, watch->bystander.due);
	if (phase(watch) != LEASE_ASKING || watch->bystander_at > clock_now())
		due = number_least(due, watch->bystander_at);
	if (phase(watch) == LEASE_ASKING)
		due = number_least(due, wait_line_due(&watch->line));
	return has_to_record(watch) ? number_least(watch->note_at, due) : due;
}

/* Below another dlock the keeper's end is awaited: it would be taken for a descendant that keeps
 * the lock. A keeper that runs again, and sees COMMAND killed by the front, may still say that it
 * lingers before it dies. */
static bool needs_us_no_longer(const struct keeper_watch *watch)
{
	if (watch->kills_keeper)
		return false;
	return (phase(watch) == LEASE_LINGERING && tree_is_ours(&watch->tree)) ||
	       (phase(watch) == LEASE_ENDED && !watch->task->nested);
}

static enum keeper_watch_end run(struct keeper_watch *watch)
{
	while (watch->keeper != 0) {
		struct pollfd fds[] = {
			{.fd = watch->keeper_fd, .events = POLLIN},
			{.fd = watch->ending_fd, .events = POLLIN},
			{.fd = watch->other_fd, .events = POLLIN},
			{.fd = watch->task->wakeup_fd, .events = POLLIN},
			{.fd = watch->timer, .events = POLLIN},
			{.fd = phase(watch) == LEASE_ASKING ? watch->task->ward.end_fd : -1,
				.events = POLLIN},
		};
		bool continued = false;

		/* A poll that fails (ENOMEM) is no reason not to look at the time. */
		(void)poll(fds, sizeof(fds) / sizeof(fds[0]),
			clock_timer_set(watch->timer, next_due(watch)));
		if (fds[0].revents) {
			reap_keeper(watch);
			return phase(watch) == LEASE_ENDED ? KEEPER_WATCH_OVER : KEEPER_WATCH_DIED;
		}
		handle_signals(watch, &continued);
		if (fds[5].revents)
			watch->ward_gone = cancel(watch);
		if (needs_us_no_longer(watch))
			return KEEPER_WATCH_OVER;
		notify_look(watch->notify, watch->lease);
		start_bystander(watch);
		if (clock_now() >= watch->bystander.due)
			send_held(watch);
		record_others(watch);
		if (fds[3].revents)
			handle_news(watch, continued);
		if (end_asking(watch))
			return KEEPER_WATCH_LATE;
		attend_wait(watch);
		end_overrun(watch);
		step_in(watch);
	}
	return KEEPER_WATCH_DIED;
}

/* The bystander must not pass for one of COMMAND's tree. */
enum keeper_watch_end keeper_watch_run(struct keeper_watch *watch)
{
	enum keeper_watch_end end = run(watch);

	bystander_end(&watch->bystander);
	return end;
}

/* COMMAND, if it is our child now. Its pid is no other's until we reap it; if the keeper has done
 * that, it may be. */
static pid_t find_command(const struct keeper_watch *watch)
{
	pid_t command = atomic_load(&watch->lease->command);
	siginfo_t info;

	if (command == 0 || waitid(P_PID, (id_t)command, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		return 0;
	return command;
}

void keeper_watch_stop_orphans(struct keeper_watch *watch)
{
	nanos limit = lease_kill_at(lease_validity(watch->lease));
	struct process_tree *tree = &watch->tree;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	tree->begun = watch->lease->granted_at;
	tree->command = find_command(watch);
	tree_reap(tree);
	tree->empty |= tree->begun == 0; /* no COMMAND was started */
	if (tree->empty)
		return;
	stopping_begin(&watch->stopping, tree, watch->task->stop_signal, watch->lease->terms.grace);
	while (tree_reap(tree), !tree->empty && !stopping_is_hopeless(&watch->stopping, tree)) {
		stopping_step(&watch->stopping, tree, limit);

		nanos left = stopping_due(&watch->stopping, limit) - clock_now();

		if (!tree_is_ours(tree) && left > LOOK_EVERY) /* no SIGCHLD tells of their end */
			left = LOOK_EVERY;
		if (left > 0)
			sigtimedwait(&child, NULL,
				&(struct timespec){left / NANOS_PER_SEC, left % NANOS_PER_SEC});
	}
}
