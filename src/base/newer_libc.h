/*
 * The functions that dlock calls and that are younger than glibc 2.28. If the C library has it,
 * these are the C library's own functions, and configure found them (HAVE_...); else newer_libc.c
 * has them. The manual pages of section 2 and 3 describe them.
 */
#pragma once

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

/* glibc 2.36, and Linux 5.3, 5.1, 5.6. Without that they fail with ENOSYS. */
int pidfd_open(pid_t pid, unsigned flags);
int pidfd_send_signal(int pidfd, int sig, siginfo_t *info, unsigned flags);
int pidfd_getfd(int pidfd, int fd, unsigned flags);

/* glibc 2.34, and Linux 5.9, or 5.11 for CLOSE_RANGE_CLOEXEC. */
int close_range(unsigned first, unsigned last, int flags);
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

/* glibc 2.30. */
pid_t gettid(void);
ssize_t getdents64(int fd, void *buffer, size_t size);

/* glibc 2.32: "TERM" for SIGTERM; NULL for no signal, and for a real-time one. */
const char *sigabbrev_np(int sig);
