#include "supervise/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lock/handoff.h"
#include "lock/lock.h"
#include "process/caller_state.h"
#include "process/process.h"
#include "supervise/release_terms.h"

static _Noreturn void give_back(struct lock *lock)
{
	static struct lock_answer answer; /* large */

	lock_assume_asked(lock);
	lock_release(lock, NULL, release_terms_limit(clock_now() + LEASE_RELEASE_LIMIT), &answer);
	handoff_verify(lock, HANDOFF_LIMIT);
	_exit(0);
}

/* It has a session of its own: no Ctrl-C, no hangup and no signal to the front's group is for it.
 * The signals that are for it alone stay blocked, as in the front: it ends with its errand. It
 * keeps nothing open of the caller's, or of the front's: with a copy of the front's connection it
 * would hide the front's death from the server. */
static _Noreturn void guard(struct lock *lock, int leash)
{
	ssize_t got;
	char word;

	setsid();
	lock_leave(lock);
	caller_state_close_all(leash);
	do
		got = read(leash, &word, 1);
	while (got < 0 && errno == EINTR);
	if (got != 0)
		_exit(0);
	give_back(lock);
}

bool guardian_start(struct guardian *guardian, struct lock *lock)
{
	struct guardian own = GUARDIAN_NONE;
	int leash[2], error;

	if (pipe2(leash, O_CLOEXEC) != 0)
		return false;
	own.leash = leash[1];
	own.pid = process_fork(GUARDIAN_PROGRAM);
	if (own.pid == 0) {
		close(leash[1]);
		guard(lock, leash[0]);
	}
	if (own.pid > 0)
		own.fd = pidfd_open(own.pid, 0);
	error = errno;
	close(leash[0]);
	guardian_end(own.fd >= 0 ? guardian : &own);
	if (own.fd >= 0)
		*guardian = own;
	errno = error;
	return own.fd >= 0;
}

void guardian_end(struct guardian *guardian)
{
	if (guardian->pid > 0) {
		kill(guardian->pid, SIGKILL);
		while (waitpid(guardian->pid, NULL, 0) < 0 && errno == EINTR)
			continue;
	}
	guardian_leave(guardian);
}

void guardian_leave(struct guardian *guardian)
{
	if (guardian->fd >= 0)
		close(guardian->fd);
	if (guardian->leash >= 0)
		close(guardian->leash);
	*guardian = GUARDIAN_NONE;
}

void guardian_dismiss(int leash)
{
	if (leash < 0)
		return;
	(void)!write(leash, "", 1); /* EPIPE: it was killed */
	close(leash);
}
