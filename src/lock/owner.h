/* A holder of a lock, or a waiter, as `dlock status` and the busy line show it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define OWNER_TEXT 600 /* enough for owner_write */

struct owner {
	char host[65];
	char boot[37];  /* /proc/sys/kernel/random/boot_id: re-entrance asks for the same host and
			   boot */
	pid_t pid;      /* the process that the user started: the front; its keeper, once that one
			   has ended */
	uint64_t start; /* its start time, field 22 of /proc/PID/stat */
	uint64_t space; /* the PID namespace of pid, as process_namespace() has it; 0: not known */
	char user[33];
	char label[129];
};

/* This process, with the label cut to fit. Reads /proc and the environment (LOGNAME, USER, else
 * /etc/passwd, else the number). A field that cannot be read is left empty or 0. */
void owner_self(struct owner *owner, const char *label);

/* The same owner, but of this process. */
void owner_pass_on(struct owner *owner);

/* Writes it as one line of tab-separated key=value for a record in the server, readable for
 * people; tabs and control characters inside values become '?'. Returns text. */
const char *owner_write(const struct owner *owner, char text[static OWNER_TEXT]);

/* Whether the two pids count in one PID namespace of one boot of one host: only then do they and
 * the start times name the same process. False if either does not say (an older dlock's record). */
bool owner_is_near(const struct owner *one, const struct owner *other);

/* Whether they name the same process, for certain. */
bool owner_is_same(const struct owner *one, const struct owner *other);

/* Reads what owner_write wrote; unknown keys are passed over, missing ones left empty. Text may
 * come from anybody with access to the server: it is bounded and made printable. */
void owner_read(struct owner *owner, const char *text);
