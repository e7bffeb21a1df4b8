/*
 * Every way dlock can end, as in EXIT STATUS of dlock(1). COMMAND may return any of these itself;
 * --report tells them apart. Once a number is here it never changes.
 */
#pragma once

enum exit_code {
	EXIT_DONE = 0,
	EXIT_BUSY = 1, /* or -E: not free with -n, or -w ran out */
	EXIT_USAGE = 64,
	EXIT_UNREACHABLE = 69, /* no server, or no quorum */
	EXIT_INTERNAL = 70,    /* dlock's own fault, or its keeper was killed */
	EXIT_SYSTEM = 71,      /* fork, memory, I/O */
	EXIT_PROTOCOL = 76,    /* an answer without sense, or a key of a foreign type */
	EXIT_REFUSED = 77,     /* password, ACL, certificate */
	EXIT_CONFIG = 78,      /* bad configuration, or no server named */
	EXIT_LOST = 80,        /* the lock was lost while COMMAND ran */
	EXIT_DEADLOCK = 81,
	EXIT_STALE = 82, /* guard: the fencing token is stale */
	EXIT_MAX_RUN = 124,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
	EXIT_SIGNAL_BASE = 128, /* + N when signal N ended COMMAND */
};
