#include "base/newer_libc.h"

#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Headers of a kernel before these calls do not name them. The numbers are those of all
 * architectures but Alpha's. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#ifndef HAVE_PIDFD_OPEN
int pidfd_open(pid_t pid, unsigned flags)
{
	return (int)syscall(SYS_pidfd_open, pid, flags);
}
#endif

#ifndef HAVE_PIDFD_SEND_SIGNAL
int pidfd_send_signal(int pidfd, int sig, siginfo_t *info, unsigned flags)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, sig, info, flags);
}
#endif

#ifndef HAVE_PIDFD_GETFD
int pidfd_getfd(int pidfd, int fd, unsigned flags)
{
	return (int)syscall(SYS_pidfd_getfd, pidfd, fd, flags);
}
#endif

#ifndef HAVE_CLOSE_RANGE
int close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}
#endif

#ifndef HAVE_GETTID
pid_t gettid(void)
{
	return (pid_t)syscall(SYS_gettid);
}
#endif

#ifndef HAVE_GETDENTS64
ssize_t getdents64(int fd, void *buffer, size_t size)
{
	return syscall(SYS_getdents64, fd, buffer, size);
}
#endif

#ifndef HAVE_SIGABBREV_NP
#define ROW(name) [SIG##name] = #name

const char *sigabbrev_np(int sig)
{
	static const char *const names[] = {
		ROW(HUP),
		ROW(INT),
		ROW(QUIT),
		ROW(ILL),
		ROW(TRAP),
		ROW(ABRT),
		ROW(BUS),
		ROW(FPE),
		ROW(KILL),
		ROW(USR1),
		ROW(SEGV),
		ROW(USR2),
		ROW(PIPE),
		ROW(ALRM),
		ROW(TERM),
#ifdef SIGSTKFLT
		ROW(STKFLT),
#endif
		ROW(CHLD),
		ROW(CONT),
		ROW(STOP),
		ROW(TSTP),
		ROW(TTIN),
		ROW(TTOU),
		ROW(URG),
		ROW(XCPU),
		ROW(XFSZ),
		ROW(VTALRM),
		ROW(PROF),
		ROW(WINCH),
		ROW(POLL),
		ROW(PWR),
		ROW(SYS),
	};

	return sig > 0 && (size_t)sig < sizeof(names) / sizeof(*names) ? names[sig] : NULL;
}
#endif
