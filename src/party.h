/* Who holds or waits for a lock, as `dlock status` and the busy line show it. */
#ifndef DLOCK_PARTY_H
#define DLOCK_PARTY_H

#include <stdint.h>
#include <sys/types.h>

#define PARTY_TEXT 600 /* enough for party_write */

struct party {
	char host[65];
	char boot[37];  /* /proc/sys/kernel/random/boot_id: re-entrance asks for the same host and
			   boot */
	pid_t pid;      /* the process that the user started: the front */
	uint64_t start; /* its start time, field 22 of /proc/PID/stat */
	char user[33];
	char label[129];
};

/* This process, with the label cut to fit. Reads /proc and the environment (LOGNAME, USER, else
 * /etc/passwd, else the number). What cannot be read is left empty or 0. */
void party_self(struct party *party, const char *label);

/* Writes it as one line of tab-separated key=value for a record in the server, readable by
 * redis-cli; tabs and control characters inside values become '?'. Returns text. */
const char *party_write(const struct party *party, char text[static PARTY_TEXT]);

/* Reads what party_write wrote; unknown keys are passed over, missing ones left empty. Text may
 * come from anybody with access to the server: it is bounded and made printable. */
void party_read(struct party *party, const char *text);

#endif
